#include "engine/session/random_key.h"

#include <set>
#include <string>

#include "gtest/gtest.h"

namespace chorale {
namespace {

// Values are part of the meaning of a seed. This one is
// printf 'chorale random key\n42\nm\nc\n' | sha256sum | cut -c -16
TEST(RandomKeyTest, NeverChanges) { EXPECT_EQ(RandomKey(42, {"c", "m"}), 0x28075876d4e30c1fu); }

TEST(RandomKeyTest, EveryPartEnters) {
  const std::set<uint64_t> keys = {RandomKey(1, {"a", "b"}),   RandomKey(2, {"a", "b"}),
                                   RandomKey(1, {"c", "b"}),   RandomKey(1, {"a", "c"}),
                                   RandomKey(1, {"b", "a"}),   RandomKey(~uint64_t{0}, {"a", "b"}),
                                   RandomKey(1, {"", "b\na"}), RandomKey(1, {"ab", ""})};
  EXPECT_EQ(keys.size(), 8u);
}

}  // namespace
}  // namespace chorale
