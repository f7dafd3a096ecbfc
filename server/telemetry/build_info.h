// The version and the commit of this program.
#ifndef CHORALE_SERVER_TELEMETRY_BUILD_INFO_H_
#define CHORALE_SERVER_TELEMETRY_BUILD_INFO_H_

namespace chorale {

// Such as "0.1.0".
const char* BuildVersion();
// In hexadecimal; "unknown" if the build did not know it.
const char* BuildCommit();

}  // namespace chorale

#endif  // CHORALE_SERVER_TELEMETRY_BUILD_INFO_H_
