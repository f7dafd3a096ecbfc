#include "tests/end_to_end/model_server_fixture.h"

#include <vector>

#include "absl/strings/str_cat.h"

namespace chorale::end_to_end {

std::unique_ptr<TempFolder> ModelServerFixture::models_;
std::unique_ptr<ServerProcess> ModelServerFixture::server_;
std::unique_ptr<ApiClient> ModelServerFixture::client_;

void ModelServerFixture::SetUpTestSuite() {
  ASSERT_NO_FATAL_FAILURE(StartServer({{"model", RandomModel()}}));
  RegisterContext("c", RandomRows(20, 2, 3), "model");
}

void ModelServerFixture::TearDownTestSuite() {
  client_.reset();  // an idle connection would delay the end of the server
  if (server_ != nullptr) server_->Terminate();
  server_.reset();
  models_.reset();
}

ModelFiles ModelServerFixture::RandomModel() {
  ModelFiles model({.n_layers = 2, .num_components = 3});
  model.FillRandom(/*seed=*/7, /*gain=*/2.0);
  return model;
}

ModelFiles ModelServerFixture::DependentModel() {
  ModelFiles model = RandomModel();
  for (float& weight : model["embedder.y_embed.weight"].values) weight *= 4;
  return model;
}

void ModelServerFixture::StartServer(const std::map<std::string, ModelFiles>& models) {
  models_ = std::make_unique<TempFolder>();
  std::vector<std::string> folders;
  for (const auto& [id, model] : models) {
    folders.push_back(*models_ / id);
    model.Write(folders.back());
  }
  server_ = ServerProcess::Start({.models = folders});
  ASSERT_NE(server_, nullptr);
  client_ = std::make_unique<ApiClient>(server_->address());
}

void ModelServerFixture::RegisterContext(const std::string& id, const Rows& rows,
                                         const std::string& model) {
  const auto reply = client_->Register(id, rows, absl::StrCat("models/", model));
  ASSERT_TRUE(reply.ok()) << reply.status.error_message();
}

}  // namespace chorale::end_to_end
