// Small limits, and good requests to change.
#ifndef CHORALE_TESTS_ENGINE_SESSION_REQUEST_VALIDATION_FIXTURE_H_
#define CHORALE_TESTS_ENGINE_SESSION_REQUEST_VALIDATION_FIXTURE_H_

#include <functional>
#include <memory>
#include <string>

#include "base/error_details.h"
#include "engine/session/request_validation.h"
#include "gtest/gtest.h"
#include "tests/engine/engine_fixture.h"

namespace chorale {

class RequestValidationTest : public ::testing::Test {
 protected:
  RequestValidationTest() : backend_(testing::NewFakeBackend({}, &log_)) {
    config_.buffer_size = 8;
    config_.num_components = 3;
    limits_.max_query_rows = 20;
    limits_.max_paths = 50;
    limits_.max_values = 300;
    limits_.max_orders = 6;
    limits_.max_quantiles = 3;
    limits_.max_features = 5;
  }

  SampleRequest GoodSample() const {
    SampleRequest request;
    request.query_rows = testing::MakeTargets(4);
    request.paths = 10;
    return request;
  }
  LogDensityRequest GoodDensity() const {
    LogDensityRequest request;
    request.query_rows = testing::MakeTargets(4);
    request.vectors = 5;
    request.y.assign(20, 0.5);
    return request;
  }
  PredictRequest GoodPredict() const {
    PredictRequest request;
    request.query_rows = testing::MakeTargets(4);
    request.quantiles = {0.1, 0.9};
    return request;
  }
  // The field that is complained about after a change; "" when all is well.
  std::string Sample(const std::function<void(SampleRequest&)>& change) const {
    SampleRequest request = GoodSample();
    change(request);
    return ErrorField(ValidateRequest(request, config_, limits_, *backend_));
  }
  std::string Density(const std::function<void(LogDensityRequest&)>& change) const {
    LogDensityRequest request = GoodDensity();
    change(request);
    return ErrorField(ValidateRequest(request, config_, limits_, *backend_));
  }
  std::string Predict(const std::function<void(PredictRequest&)>& change) const {
    PredictRequest request = GoodPredict();
    change(request);
    return ErrorField(ValidateRequest(request, config_, limits_, *backend_));
  }

  testing::FakeBackendLog log_;
  std::unique_ptr<Backend> backend_;
  ModelConfig config_;
  Limits limits_;
};

}  // namespace chorale

#endif  // CHORALE_TESTS_ENGINE_SESSION_REQUEST_VALIDATION_FIXTURE_H_
