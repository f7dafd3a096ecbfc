// chorale register
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/cli/command_line.h"
#include "client/cli/commands.h"
#include "client/cli/context_report.h"
#include "client/cpp/column_types.h"

namespace chorale::client {
namespace {

constexpr size_t kMaxIdLength = 63;

struct RegisterArguments {
  std::string file;
  std::string target;
  std::string name;
  std::string model;
  std::vector<std::string> drop;
  std::vector<std::string> numeric;
  std::vector<std::string> categorical;
  std::vector<std::string> missing;
};

// An id from the file's name: "Ames Houses.csv" -> "ames-houses"; empty if no character is allowed.
std::string IdFromFile(const std::string& file) {
  if (file == "-") return "";
  std::string id = std::filesystem::path(file).stem().string();
  for (char& c : id) {
    const auto byte = static_cast<unsigned char>(c);
    const bool allowed = byte < 0x80 && (std::isalnum(byte) || c == '.' || c == '_' || c == '-');
    c = allowed ? static_cast<char>(std::tolower(byte)) : '-';
  }
  const auto first = std::find_if(
      id.begin(), id.end(), [](char c) { return std::isalnum(static_cast<unsigned char>(c)); });
  id.erase(id.begin(), first);
  return id.substr(0, kMaxIdLength);
}

absl::StatusOr<DataFrame> LoadTable(const RegisterArguments& arguments, Environment* environment) {
  absl::StatusOr<CsvTable> csv = ReadCsv(arguments.file);
  RETURN_IF_ERROR(csv.status());
  const auto in_file = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat(arguments.file, ": ", what));
  };
  if (csv->row_count() == 0) return in_file("the file has a header but no rows");
  TypeOptions types;
  types.missing = MissingOrDefault(arguments.missing);
  types.numeric = arguments.numeric;
  types.categorical = arguments.categorical;
  absl::StatusOr<TypedTable> table = InferTypes(*csv, types);
  if (!table.ok()) return in_file(table.status().message());
  for (const std::string& name : arguments.drop) {
    if (!table->frame.Remove(name)) return in_file(absl::StrCat("--drop: no column '", name, "'"));
  }
  if (!environment->options.quiet) std::cerr << DescribeColumns(table->frame);
  for (const std::string& note : table->notes) environment->Note(note);
  return std::move(table->frame);
}

absl::Status RunRegister(const RegisterArguments& arguments, Environment* environment) {
  const std::string id = arguments.name.empty() ? IdFromFile(arguments.file) : arguments.name;
  if (id.empty()) return absl::InvalidArgumentError("name the context with --name");
  absl::StatusOr<DataFrame> table = LoadTable(arguments, environment);
  RETURN_IF_ERROR(table.status());
  absl::StatusOr<Client*> client = environment->Connect();
  RETURN_IF_ERROR(client.status());
  Progress progress("rows uploaded", table->row_count(), environment->progress());
  const RegisterOptions options{
      .target_column = arguments.target,
      .model = arguments.model,
      .on_progress = [&progress](int64_t rows) { progress.Update(rows); },
  };
  absl::StatusOr<Registration> registration =
      (*client)->RegisterContext(id, *table, options, environment->call());
  RETURN_IF_ERROR(registration.status());
  if (registration->already_registered) {
    environment->Note(absl::StrCat("'", id, "' already has this content; nothing changed"));
  }
  return WriteContext(registration->context, environment);
}

}  // namespace

void AddRegisterCommand(CLI::App* app, Environment* environment) {
  auto arguments = std::make_shared<RegisterArguments>();
  CLI::App* command = AddCommand(app, environment, "register", "Register a CSV table as a context",
                                 arguments, RunRegister);
  command
      ->add_option("FILE", arguments->file,
                   "CSV file with a header line; \"-\" reads standard input")
      ->required();
  command->add_option("--target", arguments->target, "The numeric column to predict")
      ->required()
      ->type_name("COLUMN");
  command->add_option("--name", arguments->name, "The context's name [the file's name]")
      ->type_name("ID");
  command
      ->add_option("--model", arguments->model, "The model that encodes it [the server's default]")
      ->type_name("ID");
  AddList(command, "--drop", &arguments->drop, "Columns to leave out")->type_name("COLUMN,...");
  AddList(command, "--numeric", &arguments->numeric, "Columns that are numbers")
      ->type_name("COLUMN,...");
  AddList(command, "--categorical", &arguments->categorical,
          "Columns that are categories even if they look like numbers")
      ->type_name("COLUMN,...");
  AddMissingOption(command, &arguments->missing);
  command->footer(
      "A column is numeric if all cells that are not missing are finite numbers, else\n"
      "categorical. The column types are shown on standard error. Registering the same content\n"
      "again has no effect.\n\n"
      "Example:\n  chorale register houses.csv --target price --categorical zip");
}

}  // namespace chorale::client
