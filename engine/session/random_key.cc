#include "engine/session/random_key.h"

#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/require.h"
#include "engine/data/dataset_codec.h"

namespace chorale {

uint64_t RandomKey(uint64_t seed, const Source& source) {
  const std::string digest = ContentDigest(absl::StrCat(
      "chorale random key\n", seed, "\n", source.model_digest, "\n", source.context_digest, "\n"));
  uint64_t key = 0;
  Require(absl::SimpleHexAtoi(absl::string_view(digest).substr(0, 16), &key), "a digest is hex");
  return key;
}

}  // namespace chorale
