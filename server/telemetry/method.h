// The RPC methods, with their names in metrics and logs.
#ifndef CHORALE_SERVER_TELEMETRY_METHOD_H_
#define CHORALE_SERVER_TELEMETRY_METHOD_H_

#include <array>

namespace chorale {

enum class Method {
  kRegisterContext,
  kGetContext,
  kListContexts,
  kDeleteContext,
  kWarmContext,
  kPredict,
  kSample,
  kLogDensity,
  kGetModel,
  kListModels,
};

inline constexpr std::array<const char*, 10> kMethodNames = {
    "RegisterContext", "GetContext", "ListContexts", "DeleteContext", "WarmContext",
    "Predict",         "Sample",     "LogDensity",   "GetModel",      "ListModels"};

inline const char* MethodName(Method method) { return kMethodNames[static_cast<int>(method)]; }

}  // namespace chorale

#endif  // CHORALE_SERVER_TELEMETRY_METHOD_H_
