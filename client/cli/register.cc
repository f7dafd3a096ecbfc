// chorale register
#include <iostream>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "client/cli/command_line.h"
#include "client/cli/commands.h"
#include "client/cli/context_id.h"
#include "client/cli/context_report.h"
#include "client/cpp/csv_columns.h"
#include "client/cpp/shell_word.h"
#include "client/cpp/status_from_grpc.h"
#include "client/cpp/table_codec.h"

namespace chorale::client {
namespace {

struct RegisterArguments {
  std::string file;
  std::string target;
  std::string name;
  std::string model;
  std::vector<std::string> drop;
  std::vector<std::string> numeric;
  std::vector<std::string> categorical;
  std::vector<std::string> missing;
  bool no_seasons = false;
  int64_t memory_rows = 0;
  std::string memory_policy;
  bool drop_missing_targets = false;
  bool validate_only = false;
  std::string description;
  std::vector<std::string> labels;
  double expire_days = 0;
  bool replace = false;
  std::string etag;
};

// A table that is ready to be registered.
struct Registrable {
  CsvTable csv;
  MissingMarks missing;
  DataFrame table;
  std::string target;  // its name in the table
};

// InvalidArgument, with the line, if a row has no target value.
absl::Status CheckTarget(const Registrable& loaded) {
  const CsvTable& csv = loaded.csv;
  const int64_t column = csv.Find(loaded.target);
  const DataColumn* const target = loaded.table.Find(loaded.target);
  if (target == nullptr || target->missing_count() == 0) return absl::OkStatus();
  int64_t row = 0;
  while (!loaded.missing.Matches(csv.Cell(row, column))) ++row;
  return absl::InvalidArgumentError(absl::StrCat(
      CellPlace(csv, row, column),
      ": the value is missing, but a target requires a value in every row; missing in ",
      target->missing_count(), " of ", csv.row_count(),
      " rows, which --drop-missing-targets drops"));
}

// InvalidArgument if a name or a text exceeds the limit of the API.
absl::Status CheckTexts(const CsvTable& csv, const DataColumn& column) {
  if (column.name.size() > kMaxTextBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the header: the name ", QuotedText(column.name),
                                                   " has ", column.name.size(),
                                                   " bytes; the limit is ", kMaxTextBytes));
  }
  if (column.kind == ColumnKind::kNumeric) return absl::OkStatus();
  const int64_t index = csv.Find(column.name);
  for (int64_t row = 0; row < csv.row_count(); ++row) {
    const absl::string_view text = csv.Cell(row, index);
    if (text.size() <= kMaxTextBytes) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(CellPlace(csv, row, index), ": ", QuotedText(text), " has ", text.size(),
                     " bytes; the limit for a text is ", kMaxTextBytes,
                     "; drop the column with --drop=", AsOptionValue(column.name)));
  }
  return absl::OkStatus();
}

// Reads the columns of the file that the user does not drop, as they will be registered.
absl::Status ReadTable(const RegisterArguments& arguments, Registrable* loaded) {
  const CsvTable& csv = loaded->csv;
  if (csv.row_count() == 0) {
    return absl::InvalidArgumentError("the file has a header but no rows");
  }
  ColumnOptions options;
  options.missing = loaded->missing;
  for (const auto& [option, values, names] : {
           std::tuple{"--numeric", &arguments.numeric, &options.numeric},
           std::tuple{"--categorical", &arguments.categorical, &options.categorical},
           std::tuple{"--drop", &arguments.drop, &options.dropped},
       }) {
    ASSIGN_OR_RETURN(*names, ColumnsOf(option, *values, csv));
  }
  ASSIGN_OR_RETURN(loaded->table, ReadColumns(csv, options));
  for (const DataColumn& column : loaded->table.columns()) {
    RETURN_IF_ERROR(CheckTexts(csv, column));
  }
  const int64_t target = csv.Find(arguments.target);
  loaded->target = target < 0 ? arguments.target : csv.names()[target];
  return arguments.drop_missing_targets ? absl::OkStatus() : CheckTarget(*loaded);
}

absl::StatusOr<Registrable> LoadTable(const RegisterArguments& arguments,
                                      const Environment& environment) {
  Registrable loaded;
  loaded.missing = MarksOf(arguments.missing);
  ASSIGN_OR_RETURN(loaded.csv, ReadCsv(arguments.file));
  for (const std::string& note : loaded.csv.notes()) {
    environment.Note(absl::StrCat(arguments.file, ": ", note));
  }
  if (const absl::Status status = ReadTable(arguments, &loaded); !status.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(arguments.file, ": ", status.message()));
  }
  return loaded;
}

// Writes the types of the columns, and warnings about them.
void NoteColumns(const Registration& registration, const Registrable& loaded,
                 const Environment& environment) {
  const v1::Context& context = registration.context;
  const bool written = environment.format(Environment::Readers::kPeople) == Format::kTable;
  if (!environment.options.quiet && !written) WriteFeatures(context, &std::cerr);
  for (const v1::ColumnSummary& feature : context.features()) {
    if (feature.type() != v1::ColumnSummary::TYPE_CATEGORICAL) continue;
    const int64_t column = loaded.csv.Find(feature.name());
    if (column < 0) continue;
    const std::string note = NoteOnMarks(loaded.csv, column, loaded.missing);
    if (!note.empty()) environment.Note(note);
  }
  NoteWarnings(registration.warnings, environment);
}

// Returns the error for a rejected table or name, with the option that corrects it.
absl::Status WithWayOut(const absl::Status& refusal, const DataFrame& table) {
  constexpr absl::string_view kColumns = "rows.columns";
  constexpr std::pair<absl::string_view, absl::string_view> kOptions[] = {
      {"spec.context_id", "--name"},
      {"spec.memory_row_count", "--memory-rows"},
      {"spec.memory_policy", "--memory-policy"},
  };
  for (const std::string& field : RefusedFields(refusal)) {
    for (const auto& [name, option] : kOptions) {
      if (field != name) continue;
      return absl::Status(
          refusal.code(),
          absl::StrReplaceAll(refusal.message(),
                              {{name, option}, {"memory_row_count", "--memory-rows"}}));
    }
    std::string way_out;
    absl::string_view rest = field;
    if (!absl::ConsumePrefix(&rest, kColumns)) continue;
    const size_t end = rest.find(']');
    size_t index = 0;
    if (rest.empty() && table.columns().size() > 2) {
      way_out = "drop columns with --drop=COLUMN,...";
    } else if (ErrorReason(refusal) == "LIMIT_EXCEEDED" && end != absl::string_view::npos &&
               rest.front() == '[' && absl::SimpleAtoi(rest.substr(1, end - 1), &index) &&
               index < table.columns().size()) {
      way_out = absl::StrCat("if the column is an ID, drop it with --drop=",
                             AsOptionValue(table.columns()[index].name));
    }
    if (way_out.empty()) continue;
    return absl::Status(refusal.code(), absl::StrCat(refusal.message(), "; ", way_out));
  }
  return refusal;
}

// The policy with this name on the command line; empty: the server's default.
v1::MemoryPolicy PolicyOf(const std::string& name) {
  v1::MemoryPolicy policy = v1::MEMORY_POLICY_UNSPECIFIED;
  v1::MemoryPolicy_Parse(absl::StrCat("MEMORY_POLICY_", absl::AsciiStrToUpper(name)), &policy);
  return policy;
}

// InvalidArgument if a label is not KEY=VALUE.
absl::StatusOr<std::map<std::string, std::string>> ParseLabels(
    const std::vector<std::string>& arguments) {
  std::map<std::string, std::string> labels;
  for (const std::string& argument : arguments) {
    const size_t equals = argument.find('=');
    if (equals == std::string::npos || equals == 0) {
      return absl::InvalidArgumentError(absl::StrCat("--label: ", argument, ", must be KEY=VALUE"));
    }
    labels[argument.substr(0, equals)] = argument.substr(equals + 1);
  }
  return labels;
}

absl::Status RunRegister(const RegisterArguments& arguments, Environment* environment) {
  const std::string id = arguments.name.empty() ? IdFromFile(arguments.file) : arguments.name;
  if (id.empty()) return absl::InvalidArgumentError("the context has no name: set --name");
  ASSIGN_OR_RETURN(auto labels, ParseLabels(arguments.labels));
  ASSIGN_OR_RETURN(const Registrable loaded, LoadTable(arguments, *environment));
  const DataFrame& table = loaded.table;
  ASSIGN_OR_RETURN(Client* const client, environment->Connect());
  Progress progress("rows uploaded", table.row_count(), environment->progress());
  const RegisterOptions options{
      .target_column = loaded.target,
      .model = arguments.model,
      .seasons = arguments.no_seasons ? RegisterOptions::Seasons::kNotSought
                                      : RegisterOptions::Seasons::kSought,
      .memory_rows = arguments.memory_rows,
      .memory_policy = PolicyOf(arguments.memory_policy),
      .missing_targets = arguments.drop_missing_targets ? RegisterOptions::MissingTargets::kDrop
                                                        : RegisterOptions::MissingTargets::kReject,
      .validate_only = arguments.validate_only,
      .description = arguments.description,
      .labels = std::move(labels),
      .ttl = arguments.expire_days > 0 ? absl::Hours(24 * arguments.expire_days)
                                       : absl::InfiniteDuration(),
      .replace = arguments.replace,
      .etag = arguments.etag,
      .on_progress = [&progress](int64_t rows) { progress.Update(rows); },
  };
  absl::StatusOr<Registration> registration =
      client->RegisterContext(id, table, options, environment->call());
  if (!registration.ok()) return WithWayOut(registration.status(), table);
  if (registration->already_registered) {
    environment->Note(absl::StrCat("context '", id, "' already has this content"));
  }
  if (registration->replaced) {
    environment->Note(absl::StrCat("the content of context '", id, "' was replaced"));
  }
  NoteColumns(*registration, loaded, *environment);
  if (arguments.validate_only) {
    environment->Note(absl::StrCat("the table is valid and was not registered; encoding it needs ",
                                   EstimateText(registration->estimate)));
  }
  return WriteContext(registration->context, environment);
}

void AddMemoryOptions(CLI::App* command, RegisterArguments* arguments) {
  CLI::Option* const rows =
      command
          ->add_option(
              "--memory-rows", arguments->memory_rows,
              "Reduce the rows to N keys in each layer and K/V head of the model, at least 64: for "
              "tables of many rows, which then need less memory and time. 0: keep all rows")
          ->transform(IntegerBetween(0, kMaxInt64))
          ->type_name("N")
          ->capture_default_str();
  command
      ->add_option("--memory-policy", arguments->memory_policy,
                   "Policy by which these keys are chosen: merge, sample or heavy. heavy is worse "
                   "than random rows of the table, and only merge allows appends [merge]")
      ->check(CLI::IsMember({"merge", "sample", "heavy"}))
      ->type_name("POLICY")
      ->needs(rows);
}

}  // namespace

void AddRegisterCommand(CLI::App* app, Environment* environment) {
  auto arguments = std::make_shared<RegisterArguments>();
  CLI::App* command = AddCommand(app, environment, "register", "Register a CSV table as a context",
                                 arguments, RunRegister);
  command->add_option("FILE", arguments->file, "CSV file with a header line. \"-\": standard input")
      ->required();
  command->add_option("--target", arguments->target, "Numeric column to predict")
      ->required()
      ->type_name("COLUMN");
  command
      ->add_option("--name", arguments->name,
                   "Name of the context [derived from the name of the file]")
      ->type_name("ID");
  command
      ->add_option("--model", arguments->model,
                   "Model that encodes the table [the server's default]")
      ->type_name("ID");
  AddList(command, "--drop", &arguments->drop, "Columns to drop")->type_name("COLUMN,...");
  AddList(command, "--numeric", &arguments->numeric, "Columns to read as numbers")
      ->type_name("COLUMN,...");
  AddList(command, "--categorical", &arguments->categorical,
          "Columns to read as categories, whatever their cells are")
      ->type_name("COLUMN,...");
  AddMissingOption(command, &arguments->missing);
  command->add_flag("--no-seasons", arguments->no_seasons,
                    "Do not search for a season of the target");
  AddMemoryOptions(command, arguments.get());
  command->add_flag("--drop-missing-targets", arguments->drop_missing_targets,
                    "Drop rows whose target is missing, instead of rejecting the table");
  command->add_option("--description", arguments->description, "Description of the context")
      ->type_name("TEXT");
  command->add_option("--label", arguments->labels, "Label of the context. May be repeated")
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command
      ->add_option("--expire-days", arguments->expire_days,
                   "Days after which the server may delete the context [never]")
      ->check(CLI::Range(1e-4, 36500.0))
      ->type_name("DAYS");
  command->add_flag("--replace", arguments->replace,
                    "Replace a context of this name that has other content");
  command
      ->add_option("--etag", arguments->etag,
                   "With --replace: etag that the context must have, as 'chorale show "
                   "--format=json' prints it [any]")
      ->type_name("ETAG");
  command->add_flag("--validate-only", arguments->validate_only,
                    "Validate the table without registering it, and show the context that would "
                    "be registered");
  command->footer(
      "The server infers the type of a column from its non-missing cells: numeric if all are\n"
      "decimal numbers, boolean if all are true or false, date if all are like 2024-01-31,\n"
      "2024-01 or 2024-01-31T12:00, and otherwise categorical. The types are printed to standard\n"
      "error, with warnings about types that are probably not intended. Texts that look equal are\n"
      "equal: they are normalised to Unicode NFC, with single spaces. Registering the same\n"
      "content again changes at most its description, labels and expiry.\n\n"
      "A list of columns is a line of CSV: 'a,b' or '\"a, b\",c'. The options with lists may be\n"
      "repeated. If the whole value is the name of a column, it names that column.\n\n"
      "Example:\n  chorale register houses.csv --target price --categorical zip");
}

}  // namespace chorale::client
