// The golden models, served over the network, against the reference's float64 results.
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/model/tensor_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/end_to_end/api_client.h"
#include "tests/end_to_end/expected_values.h"
#include "tests/end_to_end/model_files.h"
#include "tests/end_to_end/server_process.h"
#include "tests/engine/backend/golden_bounds.h"

namespace chorale::end_to_end {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

// The expected results of one golden model.
class Golden {
 public:
  explicit Golden(const std::string& name)
      : file_(TensorFile::Open(GoldenFolder(name) + "/expected.safetensors")) {
    EXPECT_TRUE(file_.ok()) << file_.status();
  }

  std::vector<double> operator()(const std::string& tensor) const {
    const auto view = file_->Find(tensor);
    EXPECT_TRUE(view.ok()) << view.status();
    return view.ok() ? ReadFloat64(*view) : std::vector<double>();
  }

  int64_t Extent(const std::string& tensor, int64_t axis) const {
    return file_->Find(tensor)->shape[axis];
  }

  Rows Context() const {
    return Rows{
        .features = Extent("x_context", 1), .x = (*this)("x_context"), .y = (*this)("y_context")};
  }
  Rows QueryRows() const {
    return Rows{.features = Extent("x_target", 1), .x = (*this)("x_target"), .y = {}};
  }

 private:
  absl::StatusOr<TensorFile> file_;
};

// For the backend that is tested.
GoldenBounds BoundsOf(const std::string& model) {
  if (TestBackend() == "cpu") return {model, kTolerance, kTolerance, kTolerance, kTolerance};
  return CudaGoldenBounds(model);
}

class GoldenTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    server_ = ServerProcess::Start({.models = {GoldenFolder(GetParam())}});
    ASSERT_NE(server_, nullptr);
    client_ = std::make_unique<ApiClient>(server_->address());
    const auto registered = client_->Register("golden", golden_.Context());
    ASSERT_TRUE(registered.ok()) << registered.status.error_message();
    EXPECT_EQ(registered.value.context().model(), "models/" + GetParam());
  }

  v1::LogDensityRequest DensityRequest() const {
    v1::LogDensityRequest request =
        MakeLogDensity("golden", golden_.QueryRows(), golden_("y_target"));
    request.set_beyond_buffer(v1::BEYOND_BUFFER_WRAP);
    request.set_include_terms(true);
    request.set_include_mixtures(true);
    return request;
  }

  void CompareMixtures(const std::string& what, const v1::Mixtures& mixtures,
                       const std::string& prefix) const {
    EXPECT_EQ(mixtures.component_count(), golden_.Extent("point_mean", 1));
    ExpectedMixtures expected{golden_(prefix + "mean"), golden_(prefix + "std"),
                              golden_(prefix + "weight")};
    expected.OrderLike(mixtures, bounds_.mean);
    ExpectAllClose(what + " means", Vector(mixtures.means()), expected.means, bounds_.mean);
    ExpectAllClose(what + " stds", Vector(mixtures.stds()), expected.stds, bounds_.std);
    ExpectAllClose(what + " weights", Vector(mixtures.weights()), expected.weights, bounds_.weight);
  }

  const Golden golden_{GetParam()};
  const GoldenBounds bounds_ = BoundsOf(GetParam());
  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<ApiClient> client_;
};

TEST_P(GoldenTest, LogDensity) {
  const std::vector<double> terms = golden_("log_density");
  const int64_t query_rows = golden_.Extent("y_target", 1);
  std::vector<double> joint(golden_.Extent("y_target", 0), 0.0);
  for (size_t i = 0; i < terms.size(); ++i) joint[i / query_rows] += terms[i];
  ExpectAllClose("step_by_step terms of the reference", golden_("step_log_density"), terms);

  v1::LogDensityRequest request = DensityRequest();
  const auto reply = client_->LogDensity(request);
  ASSERT_TRUE(reply.ok()) << reply.status.error_message();
  ExpectAllClose(
      "log_densities", Vector(reply.value.log_densities()), joint,
      TestBackend() == "cpu" ? kTolerance : bounds_.log_density * static_cast<double>(query_rows));
  ExpectAllClose("terms", Vector(reply.value.terms()), terms, bounds_.log_density);
  CompareMixtures("mixtures", reply.value.mixtures(), "");
}

TEST_P(GoldenTest, PredictGivesThePointMixtures) {
  v1::PredictRequest request = MakePredict("golden", golden_.QueryRows());
  request.set_include_mixtures(true);
  const auto reply = client_->Predict(request);
  ASSERT_TRUE(reply.ok()) << reply.status.error_message();
  const v1::Mixtures& mixtures = reply.value.mixtures();
  CompareMixtures("Predict", mixtures, "point_");

  const int64_t query_rows = golden_.Extent("point_mean", 0);
  const int64_t components = golden_.Extent("point_mean", 1);
  std::vector<double> mean(query_rows, 0.0);
  std::vector<double> deviation(query_rows, 0.0);
  for (int64_t t = 0; t < query_rows; ++t) {
    double square = 0;
    for (int64_t j = t * components; j < (t + 1) * components; ++j) {
      const double m = mixtures.means(static_cast<int>(j));
      const double s = mixtures.stds(static_cast<int>(j));
      mean[t] += mixtures.weights(static_cast<int>(j)) * m;
      square += mixtures.weights(static_cast<int>(j)) * (s * s + m * m);
    }
    deviation[t] = std::sqrt(square - mean[t] * mean[t]);
  }
  ExpectAllClose("Predict means", Vector(reply.value.means()), mean);
  ExpectAllClose("Predict stds", Vector(reply.value.stds()), deviation);
}

TEST_P(GoldenTest, MoreTargetsThanTheBufferHoldsAreRefusedUnlessTheRequestSaysWrap) {
  v1::LogDensityRequest density = DensityRequest();
  density.clear_beyond_buffer();
  const auto refused = client_->LogDensity(density);
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(DetailsOf(refused.status).fields, Contains(HasSubstr("rows")))
      << refused.status.error_message();
  // The message names the limit and the way out.
  EXPECT_THAT(refused.status.error_message(), HasSubstr("beyond_buffer"));
  const std::string limit = GetParam() == "golden_tiny" ? "8" : "32";
  EXPECT_THAT(refused.status.error_message(), HasSubstr(limit));

  v1::SampleRequest sample = MakeSample("golden", golden_.QueryRows(), 2, 1);
  const Samples stream = client_->Sample(sample);
  EXPECT_EQ(stream.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(DetailsOf(stream.status).fields, Contains(HasSubstr("rows")));
  sample.set_beyond_buffer(v1::BEYOND_BUFFER_WRAP);
  const Samples wrapped = client_->Sample(sample);
  EXPECT_TRUE(wrapped.complete()) << wrapped.status.error_message() << wrapped.problem;
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenTest, ::testing::Values("golden_tiny", "golden_base"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace chorale::end_to_end
