#include "server/rpc/client_share.h"

#include "absl/strings/str_cat.h"

namespace chorale {

ClientShare ShareOf(const Caller& caller, const PeerAddress& peer) {
  if (caller.is_authenticated()) {
    return {absl::StrCat("tenant:", caller.tenant), static_cast<double>(caller.policy.weight)};
  }
  return {absl::StrCat("host:", peer.client())};
}

}  // namespace chorale
