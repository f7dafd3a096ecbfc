#include "server/rpc/client_share.h"

#include "absl/strings/str_cat.h"
#include "server/net/peer_address.h"

namespace chorale {

ClientShare ShareOf(const Caller& caller, absl::string_view peer) {
  if (caller.is_authenticated()) {
    return {absl::StrCat("tenant:", caller.tenant), static_cast<double>(caller.policy.weight)};
  }
  return {absl::StrCat("host:", PeerAddress(peer).client())};
}

}  // namespace chorale
