#include "client/cli/command_line.h"

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "base/normal_text.h"
#include "base/status_macros.h"
#include "client/cli/given.h"
#include "client/cpp/csv_columns.h"
#include "client/cpp/status_from_grpc.h"

namespace chorale::client {
namespace {

// Parses the index in a field "PREFIX[INDEX]", in which the prefix ends with `name`.
std::optional<int64_t> IndexIn(absl::string_view field, absl::string_view name) {
  const std::string before = absl::StrCat(name, "[");
  const size_t at = field.rfind(before);
  int64_t index = 0;
  if (at == absl::string_view::npos) return std::nullopt;
  field.remove_prefix(at + before.size());
  if (!absl::ConsumeSuffix(&field, "]") || !absl::SimpleAtoi(field, &index)) return std::nullopt;
  return index < 0 ? std::nullopt : std::optional<int64_t>(index);
}

// Returns the place of a known value that a field of the request names; empty if it names none.
std::string KnownPlace(absl::string_view field, const Rows& rows, const v1::KnownValues& known) {
  if (known.rows().empty() || !absl::StartsWith(field, "known.")) return "";
  std::optional<int64_t> index = IndexIn(field, "known.values");
  if (!index.has_value()) index = IndexIn(field, "known.rows");
  if (!index.has_value()) return "--given";
  return CellPlace(rows.csv, known.rows(static_cast<int>(*index % known.rows_size())),
                   rows.csv.Find(rows.context.target_column()));
}

}  // namespace

void AddRowsOptions(CLI::App* command, RowsOptions* options, const std::string& rows) {
  command->add_option("NAME", options->context, "Name of the context")->required();
  command->add_option("ROWS", options->file, rows)->required();
  AddMissingOption(command, &options->missing);
}

void AddQueryRowsOptions(CLI::App* command, RowsOptions* options) {
  AddRowsOptions(command, options,
                 "CSV file of the query rows, with a header line and the context's features; other "
                 "columns are ignored. \"-\": standard input");
}

CLI::Option* AddList(CLI::App* command, const std::string& name, std::vector<std::string>* values,
                     const std::string& description) {
  return command->add_option(name, *values, description)->allow_extra_args(false);
}

absl::StatusOr<std::vector<std::string>> ColumnsOf(const std::string& option,
                                                   const std::vector<std::string>& values,
                                                   const CsvTable& csv) {
  std::vector<std::string> columns;
  absl::flat_hash_set<int64_t> seen;
  const auto add = [&](const std::string& name) {
    const int64_t column = csv.Find(name);
    if (column < 0) return false;
    if (seen.insert(column).second) columns.push_back(csv.names()[column]);
    return true;
  };
  for (const std::string& value : values) {
    if (add(value)) continue;
    const absl::StatusOr<std::vector<std::string>> names = ParseCsvLine(value);
    const std::vector<std::string> list = names.ok() ? *names : std::vector<std::string>{value};
    for (const std::string& name : list) {
      if (add(name)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(option, ": no column '", name, "'",
                       list.size() > 1 ? "; put a name that contains a comma in double quotes" : "",
                       "; the columns are: ", absl::StrJoin(csv.names(), ", ")));
    }
  }
  return columns;
}

void AddMissingOption(CLI::App* command, std::vector<std::string>* values) {
  AddList(
      command, "--missing", values,
      "Texts that denote missing cells, in addition to empty cells and the default list [NA, N/A, "
      "NaN, NULL, None, <NA>, NaT, \\N, ?, ...]. An empty text removes the default list: "
      "--missing ''")
      ->type_name("TEXT,...");
}

MissingMarks MarksOf(const std::vector<std::string>& values) {
  std::vector<std::string> marks;
  for (const std::string& value : values) {
    const absl::StatusOr<std::vector<std::string>> list = ParseCsvLine(value);
    if (!list.ok() || list->empty()) {
      marks.push_back(NormalText(value));
      continue;
    }
    for (const std::string& mark : *list) marks.push_back(NormalText(mark));
  }
  return MissingMarks(marks);
}

CLI::Validator IntegerBetween(uint64_t least, uint64_t most) {
  std::string bound = absl::StrCat(most);
  if (most == kMaxInt64) bound = "2^63 - 1";
  if (most == std::numeric_limits<uint64_t>::max()) bound = "2^64 - 1";
  return CLI::Validator(
      [least, most, bound](std::string& text) {
        uint64_t number = 0;
        const bool digits = text.find_first_not_of("0123456789") == std::string::npos;
        if (!digits || !absl::SimpleAtoi(text, &number) || number < least || number > most) {
          return absl::StrCat("must be an integer from ", least, " to ", bound, ": ", text);
        }
        text = absl::StrCat(number);
        return std::string();
      },
      "");
}

CLI::Validator SecondsBetween(double least, double most) {
  return CLI::Validator(
      [least, most](const std::string& text) {
        double seconds = 0.0;
        // Not CLI::Range, which lets NaN pass.
        const bool good = absl::SimpleAtod(text, &seconds) && seconds >= least && seconds <= most;
        return good ? std::string()
                    : absl::StrCat("must be a number of seconds from ", least, " to ", most, ": ",
                                   text);
      },
      "");
}

void AddLocalRowsOption(CLI::App* command, int64_t* local_rows) {
  command
      ->add_option(
          "--local-rows", *local_rows,
          "Use only L rows of the context, those nearest to the rows of the call; they are "
          "encoded for each call. 0: use all rows")
      ->transform(IntegerBetween(0, kMaxInt64))
      ->type_name("L")
      ->capture_default_str();
}

void AddNoSnapFlag(CLI::App* command, bool* no_snap) {
  command->add_flag(
      "--no-snap", *no_snap,
      "Do not snap values to target values that the context repeats, such as counts: write values "
      "of the model's continuous distribution");
}

void AddSamplingOption(CLI::App* command, std::string* sampling) {
  command
      ->add_option("--sampling", *sampling,
                   "Random numbers of the paths: independent, or spread evenly over the paths as a "
                   "scrambled Sobol sequence, so that means over paths vary less")
      ->check(CLI::IsMember({"independent", "sobol"}))
      ->capture_default_str();
}

CLI::Option* AddSeedOption(CLI::App* command, std::optional<uint64_t>* seed,
                           const std::string& description) {
  return command->add_option("--seed", *seed, description)
      ->transform(IntegerBetween(0, std::numeric_limits<uint64_t>::max()));
}

absl::StatusOr<Rows> LoadRows(const RowsOptions& options, TargetColumn target,
                              Environment* environment) {
  ASSIGN_OR_RETURN(CsvTable csv, ReadCsv(options.file));
  ASSIGN_OR_RETURN(Client* const client, environment->Connect());
  ASSIGN_OR_RETURN(v1::Context context, client->GetContext(options.context, environment->call()));
  absl::StatusOr<QueryRows> rows = FitRows(csv, context, MarksOf(options.missing));
  if (!rows.ok()) {
    return absl::Status(rows.status().code(),
                        absl::StrCat(options.file, ": ", rows.status().message()));
  }
  for (const std::string& note : csv.notes()) {
    environment->Note(absl::StrCat(options.file, ": ", note));
  }
  for (const std::string& note : rows->notes) {
    environment->Note(absl::StrCat(options.file, ": ", note));
  }
  Rows loaded{std::move(csv), std::move(context), std::move(rows->features)};
  if (target == TargetColumn::kUsed) {
    std::erase(rows->dropped, NormalText(loaded.context.target_column()));
  } else {
    RETURN_IF_ERROR(CheckUnmixed(options, loaded));
  }
  const int64_t groups = options.group_by.empty() ? -1 : loaded.csv.Find(options.group_by);
  if (groups >= 0) std::erase(rows->dropped, loaded.csv.names()[groups]);
  if (!rows->dropped.empty()) {
    environment->Note(absl::StrCat(options.file, ": ignored columns, which are not features of '",
                                   options.context, "': ", absl::StrJoin(rows->dropped, ", ")));
  }
  return loaded;
}

absl::Status WithLine(const absl::Status& error, const std::string& file, const Rows& rows,
                      const v1::KnownValues& known, absl::Span<const int64_t> numbers) {
  for (const std::string& field : RefusedFields(error)) {
    const std::string place = KnownPlace(field, rows, known);
    if (!place.empty()) {
      return absl::Status(
          error.code(),
          absl::StrCat(file, ": ", place, ": ",
                       absl::StrReplaceAll(error.message(), {{absl::StrCat(field, ": "), ""}})));
    }
    const std::optional<int64_t> cell = IndexIn(field, ".strings.values");
    if (!cell.has_value()) continue;
    const int64_t row = *cell < static_cast<int64_t>(numbers.size()) ? numbers[*cell] : *cell;
    if (row < 0 || row >= rows.csv.row_count()) continue;
    return absl::Status(error.code(),
                        absl::StrCat(file, ": line ", rows.csv.Line(row), ": ", error.message()));
  }
  return error;
}

v1::Source SourceOf(const v1::Context& context) {
  v1::Source source;
  source.set_context_digest(context.digest());
  return source;
}

absl::string_view PrefixOf(v1::Warning::Severity severity) {
  if (severity == v1::Warning::SEVERITY_INFO) return "note: ";
  return severity == v1::Warning::SEVERITY_WARNING ? "warning: " : "";
}

double SecondsOf(const google::protobuf::Duration& duration) {
  return static_cast<double>(duration.seconds()) + 1e-9 * duration.nanos();
}

std::string EstimateText(const v1::Estimate& estimate) {
  std::string bytes = absl::StrCat(estimate.device_bytes(), " bytes of device memory");
  if (!estimate.has_duration()) return bytes;
  const absl::Duration time = absl::Seconds(SecondsOf(estimate.duration()));
  return absl::StrCat(bytes, ", about ",
                      absl::FormatDuration(absl::Trunc(time, absl::Milliseconds(1))));
}

std::string IdOf(const std::string& name) { return name.substr(name.rfind('/') + 1); }

}  // namespace chorale::client
