// chorale models
#include <string>

#include "base/status_macros.h"
#include "client/cli/command_line.h"
#include "client/cli/commands.h"

namespace chorale::client {
namespace {

absl::Status RunModels(const NoArguments&, Environment* environment) {
  ASSIGN_OR_RETURN(Client* const client, environment->Connect());
  ASSIGN_OR_RETURN(std::vector<v1::Model> models, client->ListModels(environment->call()));
  const Format format = environment->format(Environment::Readers::kPeople);
  // The columns for programs are always the same; those for people omit empty columns.
  bool with_forms = format != Format::kTable;
  bool with_notices = format != Format::kTable;
  for (const v1::Model& model : models) {
    with_forms = with_forms || !model.form().empty();
    with_notices = with_notices || !model.notice().empty();
  }
  const auto text_or_nothing = [](const std::string& text) {
    return text.empty() ? Cell() : Cell(text);
  };
  return environment->Write([&](std::ostream& out) {
    std::vector<std::string> columns = {"name",
                                        "default",
                                        "type",
                                        "row_encoder",
                                        "parameters",
                                        "buffer_size",
                                        "max_features",
                                        "trained_rows",
                                        "trained_features",
                                        "components",
                                        "resident_bytes_per_row",
                                        "digest"};
    if (with_forms) columns.push_back("form");
    if (with_notices) columns.push_back("notice");
    ReportWriter report(columns, format, &out);
    for (const v1::Model& model : models) {
      std::vector<Cell> cells = {
          IdOf(model.name()),
          model.is_default() ? "yes" : "no",
          model.model_type(),
          model.row_encoder(),
          int64_t{model.parameter_count()},
          int64_t{model.buffer_size()},
          model.max_features() > 0 ? Cell(int64_t{model.max_features()}) : Cell(),
          model.trained_rows() > 0 ? Cell(int64_t{model.trained_rows()}) : Cell(),
          model.trained_features() > 0 ? Cell(int64_t{model.trained_features()}) : Cell(),
          int64_t{model.component_count()},
          Bytes{model.resident_bytes_per_row()},
          model.digest()};
      if (with_forms) cells.push_back(text_or_nothing(model.form()));
      if (with_notices) cells.push_back(text_or_nothing(model.notice()));
      report.Add(cells);
    }
    report.Finish();
  });
}

}  // namespace

void AddModelsCommand(CLI::App* app, Environment* environment) {
  AddCommand(app, environment, "models", "List the loaded models", std::make_shared<NoArguments>(),
             RunModels);
}

}  // namespace chorale::client
