// chorale log-density
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/cli/command_line.h"
#include "client/cli/commands.h"
#include "client/cli/given.h"
#include "client/cli/group_by.h"
#include "client/cpp/known_values.h"

namespace chorale::client {
namespace {

struct LogDensityArguments {
  RowsOptions rows;
  std::vector<std::string> columns;
  std::string values_file;
  int64_t orders = 0;
  std::optional<uint64_t> seed;
  bool terms = false;
  bool cdfs = false;
  bool given = false;
  bool wrap = false;
  int64_t local_rows = 0;
};

// B vectors of values, each with the name of its column.
struct Vectors {
  // [U]: the rows of the file whose values are not known, in the order of the request.
  std::vector<int64_t> rows;
  std::vector<std::string> names;  // [B]
  std::vector<double> values;      // [B, U]
};

absl::Status AddVector(const CsvTable& csv, const std::string& file, const std::string& name,
                       const LogDensityArguments& arguments, Vectors* vectors) {
  absl::StatusOr<std::vector<double>> values =
      NumberColumn(csv, name, MarksOf(arguments.rows.missing));
  if (!values.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": ", values.status().message()));
  }
  for (const int64_t row : vectors->rows) {
    if (std::isnan((*values)[row])) {
      return absl::InvalidArgumentError(
          absl::StrCat(file, ": line ", csv.Line(row), ", column '", name,
                       "': the value is missing, but a log-density requires a value in every row",
                       arguments.given ? " without a known value"
                                       : "; if the other values are known, use --given with "
                                         "--values or --values-file"));
    }
    vectors->values.push_back((*values)[row]);
  }
  vectors->names.push_back(name);
  return absl::OkStatus();
}

// `known` has rows of the request.
absl::StatusOr<Vectors> LoadVectors(const Rows& rows, const v1::KnownValues& known,
                                    const RowGroups& groups, const LogDensityArguments& arguments) {
  CsvTable other;
  const CsvTable* csv = &rows.csv;
  if (!arguments.values_file.empty()) {
    ASSIGN_OR_RETURN(CsvTable read, ReadCsv(arguments.values_file));
    other = std::move(read);
    csv = &other;
    if (other.row_count() != rows.csv.row_count()) {
      return absl::InvalidArgumentError(absl::StrCat(arguments.values_file, ": ", other.row_count(),
                                                     " rows, but ", arguments.rows.file, " has ",
                                                     rows.csv.row_count()));
    }
  }
  const std::string& file = csv == &other ? arguments.values_file : arguments.rows.file;
  absl::StatusOr<std::vector<std::string>> named = ColumnsOf("--values", arguments.columns, *csv);
  if (!named.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": ", named.status().message()));
  }
  std::vector<std::string> columns = *std::move(named);
  if (columns.empty() && csv == &other) columns = other.names();
  if (columns.empty() && arguments.given) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--given: the values of '", rows.context.target_column(),
        "' are known: name other columns of values with --values, or use --values-file"));
  }
  if (columns.empty()) columns = {rows.context.target_column()};
  Vectors vectors;
  vectors.rows = OtherRows(known, rows.features.row_count());
  for (int64_t& row : vectors.rows) row = groups.order[row];
  for (const std::string& name : columns) {
    absl::Status status = AddVector(*csv, file, name, arguments, &vectors);
    RETURN_IF_ERROR(status);
  }
  return vectors;
}

LogDensityOptions ToOptions(const LogDensityArguments& arguments) {
  LogDensityOptions options;
  options.random_orders = arguments.orders;
  options.seed = arguments.seed;
  if (arguments.terms) options.terms = LogDensityOptions::Terms::kInclude;
  if (arguments.cdfs) options.cdfs = LogDensityOptions::Cdfs::kInclude;
  if (arguments.wrap) options.beyond_buffer = BeyondBuffer::kWrap;
  options.local_rows = arguments.local_rows;
  return options;
}

// A line for each vector or, with groups, for each group and vector.
void WriteDensities(const LogDensities& densities, const Vectors& vectors, const RowGroups& groups,
                    Format format, std::ostream* out) {
  const bool with_errors = !densities.standard_errors.empty();
  const bool with_groups = !groups.labels.empty();
  const size_t group_count = with_groups ? groups.labels.size() : 1;
  std::vector<std::string> columns = {"vector"};
  if (with_groups) columns.push_back("group");
  columns.push_back("log_density");
  if (with_errors) columns.push_back("standard_error");
  ReportWriter report(columns, format, out);
  for (size_t i = 0; i < densities.joint.size(); ++i) {
    std::vector<Cell> cells = {vectors.names[i / group_count]};
    if (with_groups) cells.emplace_back(groups.labels[i % group_count]);
    cells.emplace_back(densities.joint[i]);
    if (with_errors) cells.emplace_back(densities.standard_errors[i]);
    report.Add(cells);
  }
  report.Finish();
}

// A line for each value: its term, its cdf, or both.
void WriteValues(const LogDensities& densities, const Vectors& vectors, Format format,
                 std::ostream* out) {
  std::vector<std::string> columns = {"vector", "row"};
  if (!densities.terms.empty()) columns.push_back("log_density");
  if (!densities.cdfs.empty()) columns.push_back("cdf");
  const std::vector<size_t> by_row = AscendingOrder(vectors.rows);
  ReportWriter report(columns, format, out);
  for (size_t b = 0; b < vectors.names.size(); ++b) {
    for (const size_t t : by_row) {
      const size_t i = b * by_row.size() + t;
      std::vector<Cell> cells = {vectors.names[b], vectors.rows[t]};
      if (!densities.terms.empty()) cells.emplace_back(densities.terms[i]);
      if (!densities.cdfs.empty()) cells.emplace_back(densities.cdfs[i]);
      report.Add(cells);
    }
  }
  report.Finish();
}

absl::Status RunLogDensity(const LogDensityArguments& arguments, Environment* environment) {
  ASSIGN_OR_RETURN(Rows rows, LoadRows(arguments.rows, TargetColumn::kUsed, environment));
  LogDensityOptions options = ToOptions(arguments);
  if (arguments.given) {
    ASSIGN_OR_RETURN(options.known, KnownValuesOf(arguments.rows, rows, *environment));
  } else if (!arguments.columns.empty() || !arguments.values_file.empty()) {
    RETURN_IF_ERROR(CheckUnmixed(arguments.rows, rows));
  }
  ASSIGN_OR_RETURN(RowGroups groups, GroupsOf(arguments.rows, rows, options.known));
  options.known = groups.InRequest(options.known);
  options.group_sizes = groups.sizes;
  ASSIGN_OR_RETURN(Vectors vectors, LoadVectors(rows, options.known, groups, arguments));
  ASSIGN_OR_RETURN(Client* const client, environment->Connect());
  options.expected_source = SourceOf(rows.context);
  const absl::StatusOr<LogDensities> densities =
      client->LogDensity(arguments.rows.context, rows.features.Take(groups.order), vectors.values,
                         options, environment->call());
  RETURN_IF_ERROR(WithLine(densities.status(), arguments.rows.file, rows,
                           groups.InFile(options.known), groups.order));
  NoteWarnings(densities->warnings, *environment);
  NoteKnown(options.known, densities->known_log_densities, *environment);
  if (arguments.orders > 0) environment->Note(absl::StrCat("seed ", densities->seed));
  const Format format = environment->format(Environment::Readers::kPrograms);
  return environment->Write([&](std::ostream& out) {
    if (arguments.terms || arguments.cdfs) {
      WriteValues(*densities, vectors, format, &out);
    } else {
      WriteDensities(*densities, vectors, groups, format, &out);
    }
  });
}

}  // namespace

void AddLogDensityCommand(CLI::App* app, Environment* environment) {
  auto arguments = std::make_shared<LogDensityArguments>();
  CLI::App* command =
      AddCommand(app, environment, "log-density",
                 "Compute joint log-densities of values for query rows", arguments, RunLogDensity);
  AddQueryRowsOptions(command, &arguments->rows);
  AddList(
      command, "--values", &arguments->columns,
      "Columns of values; each column is a vector over all rows [the target column; all columns of "
      "--values-file]")
      ->type_name("COLUMN,...");
  command
      ->add_option("--values-file", arguments->values_file,
                   "CSV file with the columns of values, and its rows in the order of ROWS [ROWS]")
      ->type_name("FILE");
  CLI::Option* orders =
      command
          ->add_option(
              "--orders", arguments->orders,
              "Average the density over R random orders of the rows, in pairs of an order and its "
              "reverse; from 4 on, with its standard error. 0: use the order of ROWS")
          ->transform(IntegerBetween(0, kMaxInt64))
          ->type_name("R")
          ->capture_default_str();
  AddSeedOption(command, &arguments->seed,
                "Seed of the random orders. Without it, the server chooses a seed")
      ->needs(orders);
  command
      ->add_flag("--terms", arguments->terms,
                 "Write a line for each row: its log-density, conditional on the earlier rows")
      ->excludes(orders);
  command
      ->add_flag(
          "--cdfs", arguments->cdfs,
          "Write a line for each row: the cumulative probability of its value, conditional on "
          "the earlier rows")
      ->excludes(orders);
  AddGivenFlag(command, &arguments->given,
               "Compute the densities of the values of --values or --values-file in these other "
               "rows, conditional on the known values");
  AddGroupByOption(command, &arguments->rows, "Compute the joint density of each group");
  command->add_flag(
      "--wrap", arguments->wrap,
      "Allow more rows, in a group, than the model was trained for (buffer_size in 'chorale "
      "models')");
  AddLocalRowsOption(command, &arguments->local_rows);
  command->footer(
      "Writes a line for each vector: the natural logarithm of its joint density, in the target's\n"
      "units, and, with four orders or more, its standard error. With --group-by, writes a line "
      "for "
      "each\n"
      "vector and group, with the group's cell.\n\n"
      "Examples:\n"
      "  chorale log-density houses sold.csv\n"
      "  chorale log-density houses sold.csv --values price,offer --orders 8");
}

}  // namespace chorale::client
