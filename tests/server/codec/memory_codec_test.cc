#include "server/codec/memory_codec.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace chorale {
namespace {

using testing::HasSubstr;

absl::StatusOr<MemorySet> Decoded(int64_t rows, int policy) {
  v1::ContextSpec spec;
  spec.set_memory_row_count(rows);
  spec.set_memory_policy(static_cast<v1::MemoryPolicy>(policy));
  return DecodeMemory(spec);
}

void ExpectInvalid(const absl::StatusOr<MemorySet>& decoded, const std::string& field,
                   const std::string& message) {
  EXPECT_EQ(decoded.status().code(), absl::StatusCode::kInvalidArgument) << decoded.status();
  EXPECT_EQ(ErrorField(decoded.status()), field);
  EXPECT_THAT(std::string(decoded.status().message()), HasSubstr(message));
}

TEST(MemoryCodecTest, DecodesWhatASpecHas) {
  EXPECT_EQ(*Decoded(0, v1::MEMORY_POLICY_UNSPECIFIED), MemorySet());
  EXPECT_EQ(*Decoded(64, v1::MEMORY_POLICY_UNSPECIFIED), (MemorySet{64, MemoryPolicy::kMerge}));
  EXPECT_EQ(*Decoded(64, v1::MEMORY_POLICY_MERGE), (MemorySet{64, MemoryPolicy::kMerge}));
  EXPECT_EQ(*Decoded(65, v1::MEMORY_POLICY_HEAVY), (MemorySet{65, MemoryPolicy::kHeavy}));
  EXPECT_EQ(*Decoded(66, v1::MEMORY_POLICY_SAMPLE), (MemorySet{66, MemoryPolicy::kSample}));
}

TEST(MemoryCodecTest, RefusesWhatIsNoMemorySet) {
  for (const int64_t rows : {-1, 1, 63}) {
    ExpectInvalid(Decoded(rows, v1::MEMORY_POLICY_MERGE), "spec.memory_row_count",
                  absl::StrCat("is ", rows, "; must be 0, or at least 64"));
  }
  ExpectInvalid(Decoded(64, 4), "spec.memory_policy", "is 4");
  ExpectInvalid(Decoded(64, -1), "spec.memory_policy", "is -1");
  for (const int policy :
       {v1::MEMORY_POLICY_MERGE, v1::MEMORY_POLICY_HEAVY, v1::MEMORY_POLICY_SAMPLE}) {
    ExpectInvalid(Decoded(0, policy), "spec.memory_policy", "requires memory_row_count");
  }
}

TEST(MemoryCodecTest, OnlyContextsWithASetHaveAPolicy) {
  const std::pair<MemorySet, v1::MemoryPolicy> sets[] = {
      {{0, MemoryPolicy::kMerge}, v1::MEMORY_POLICY_UNSPECIFIED},
      {{64, MemoryPolicy::kMerge}, v1::MEMORY_POLICY_MERGE},
      {{64, MemoryPolicy::kHeavy}, v1::MEMORY_POLICY_HEAVY},
      {{64, MemoryPolicy::kSample}, v1::MEMORY_POLICY_SAMPLE}};
  for (const auto& [memory, policy] : sets) {
    v1::Context message;
    EncodeMemory(memory, &message);
    EXPECT_EQ(message.memory_row_count(), memory.rows);
    EXPECT_EQ(message.memory_policy(), policy);
  }
}

}  // namespace
}  // namespace chorale
