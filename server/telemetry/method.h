// The RPC methods, with their names in metrics and logs.
#ifndef CHORALE_SERVER_TELEMETRY_METHOD_H_
#define CHORALE_SERVER_TELEMETRY_METHOD_H_

#include <array>

namespace chorale {

enum class Method {
  kRegisterContext,
  kCreateContext,
  kAppendRows,
  kGetContext,
  kListContexts,
  kDeleteContext,
  kWarmContext,
  kPredict,
  kSample,
  kSummarize,
  kLogDensity,
  kGetModel,
  kListModels,
  kGetServerInfo,
};

inline constexpr std::array<const char*, 14> kMethodNames = {
    "RegisterContext", "CreateContext", "AppendRows", "GetContext",   "ListContexts",
    "DeleteContext",   "WarmContext",   "Predict",    "Sample",       "Summarize",
    "LogDensity",      "GetModel",      "ListModels", "GetServerInfo"};

inline const char* MethodName(Method method) { return kMethodNames[static_cast<int>(method)]; }

}  // namespace chorale

#endif  // CHORALE_SERVER_TELEMETRY_METHOD_H_
