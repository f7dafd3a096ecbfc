#include "client/cli/command_line.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "client/cpp/column_types.h"

namespace chorale::client {

void AddRowsOptions(CLI::App* command, RowsOptions* options) {
  command->add_option("NAME", options->context, "The context's name")->required();
  command
      ->add_option("ROWS", options->file,
                   "CSV file with a header line and the context's feature columns; other columns "
                   "are ignored. \"-\": standard input")
      ->required();
  AddMissingOption(command, &options->missing);
}

void AddMissingOption(CLI::App* command, std::vector<std::string>* tokens) {
  AddList(command, "--missing", tokens,
          "Texts of missing cells, besides empty cells [NA,N/A,NaN,nan,null,None,?]")
      ->type_name("TOKEN,...");
}

MissingTokens MissingOrDefault(const std::vector<std::string>& tokens) {
  if (tokens.empty()) return TypeOptions().missing;
  return MissingTokens(tokens.begin(), tokens.end());
}

absl::StatusOr<Rows> LoadRows(const RowsOptions& options, TargetColumn target,
                              Environment* environment) {
  absl::StatusOr<CsvTable> csv = ReadCsv(options.file);
  RETURN_IF_ERROR(csv.status());
  absl::StatusOr<Client*> client = environment->Connect();
  RETURN_IF_ERROR(client.status());
  absl::StatusOr<v1::Context> context = (*client)->GetContext(options.context, environment->call());
  RETURN_IF_ERROR(context.status());
  absl::StatusOr<TargetRows> rows = FitRows(*csv, *context, MissingOrDefault(options.missing));
  if (!rows.ok()) {
    return absl::Status(rows.status().code(),
                        absl::StrCat(options.file, ": ", rows.status().message()));
  }
  if (target == TargetColumn::kUsed) std::erase(rows->dropped, context->target_column());
  if (!rows->dropped.empty()) {
    environment->Note(absl::StrCat("columns of ", options.file, " that are not features of '",
                                   options.context,
                                   "' and are ignored: ", absl::StrJoin(rows->dropped, ", ")));
  }
  return Rows{*std::move(csv), *std::move(context), std::move(rows->features)};
}

std::string IdOf(const std::string& name) { return name.substr(name.rfind('/') + 1); }

}  // namespace chorale::client
