// chorale models
#include "base/status_macros.h"
#include "client/cli/command_line.h"
#include "client/cli/commands.h"

namespace chorale::client {
namespace {

struct NoArguments {};

absl::Status RunModels(const NoArguments&, Environment* environment) {
  absl::StatusOr<Client*> client = environment->Connect();
  RETURN_IF_ERROR(client.status());
  absl::StatusOr<std::vector<v1::Model>> models = (*client)->ListModels(environment->call());
  RETURN_IF_ERROR(models.status());
  return environment->Write([&](std::ostream& out) {
    ReportWriter report(
        {"name", "default", "type", "row_encoder", "parameters", "buffer_size", "max_features",
         "components", "resident_bytes_per_row", "digest", "notice"},
        environment->format(Environment::Readers::kPeople), &out);
    for (const v1::Model& model : *models) {
      report.Add({IdOf(model.name()), model.is_default() ? "yes" : "no", model.model_type(),
                  model.row_encoder(), int64_t{model.parameter_count()},
                  int64_t{model.buffer_size()},
                  model.max_features() > 0 ? Cell(int64_t{model.max_features()}) : Cell(),
                  int64_t{model.component_count()}, Bytes{model.resident_bytes_per_row()},
                  model.digest(), model.notice()});
    }
    report.Finish();
  });
}

}  // namespace

void AddModelsCommand(CLI::App* app, Environment* environment) {
  AddCommand(app, environment, "models", "List the models that the server has loaded",
             std::make_shared<NoArguments>(), RunModels);
}

}  // namespace chorale::client
