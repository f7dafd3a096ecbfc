#include "server/telemetry/build_info.h"

namespace chorale {

const char* BuildVersion() { return CHORALE_VERSION; }

const char* BuildCommit() { return CHORALE_COMMIT; }

}  // namespace chorale
