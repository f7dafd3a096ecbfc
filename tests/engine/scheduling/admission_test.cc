#include "engine/scheduling/admission.h"

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace chorale {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kPool = 1024;
constexpr double kWork = 100;

class AdmissionTest : public ::testing::Test {
 protected:
  void Wait(uint64_t id, const std::string& client, int64_t bytes, double weight = 1) {
    admission_.Wait(id, {client, weight}, kWork, bytes, now_);
  }
  void WaitWithWork(uint64_t id, const std::string& client, double work, int64_t bytes) {
    admission_.Wait(id, {client, 1}, work, bytes, now_);
  }
  std::vector<uint64_t> Started() {
    std::vector<uint64_t> started;
    admission_.StartWhatFits(now_, [&](uint64_t id) {
      if (!memory_in_pieces_) started.push_back(id);
      return !memory_in_pieces_;
    });
    return started;
  }

  Admission admission_{{.pool_bytes = kPool, .max_running = 64}};
  absl::Time now_ = absl::UnixEpoch();
  bool memory_in_pieces_ = false;
};

TEST_F(AdmissionTest, OneClientGetsAllButWhatIsKeptForSmallRequests) {
  for (uint64_t id = 1; id <= 5; ++id) Wait(id, "a", kPool / 4);
  EXPECT_THAT(Started(), ElementsAre(1, 2, 3));
  now_ += absl::Hours(1);
  EXPECT_THAT(Started(), IsEmpty()) << "however long it waits";
  Wait(10, "b", kPool / 32);
  EXPECT_THAT(Started(), ElementsAre(10));
  Wait(11, "b", kPool / 32);  // with the first, it is no longer small
  EXPECT_THAT(Started(), ElementsAre(11));
  EXPECT_EQ(admission_.waiting(), 2);
}

TEST_F(AdmissionTest, ARequestForTheWholePoolRunsAlone) {
  Wait(1, "a", kPool);
  Wait(2, "a", 1);
  EXPECT_THAT(Started(), ElementsAre(1));
  admission_.Remove(1);
  EXPECT_THAT(Started(), ElementsAre(2));
}

TEST_F(AdmissionTest, WithinAClientTheOrderHoldsForThoseThatNeedBytes) {
  Wait(1, "a", kPool / 2);
  EXPECT_THAT(Started(), ElementsAre(1));
  Wait(2, "a", kPool / 2);
  Wait(3, "a", kPool / 16);
  Wait(4, "a", 0);
  EXPECT_THAT(Started(), ElementsAre(4));
  admission_.Remove(1);
  EXPECT_THAT(Started(), ElementsAre(2, 3));
}

TEST_F(AdmissionTest, WithinAClientTheLeastWorkComesFirst) {
  WaitWithWork(1, "a", 100, kPool * 3 / 4);
  EXPECT_THAT(Started(), ElementsAre(1));
  WaitWithWork(2, "a", 90, kPool / 2);
  WaitWithWork(3, "a", 50, kPool / 4);
  WaitWithWork(4, "a", 60, kPool / 4);
  WaitWithWork(5, "a", 50, kPool / 4);
  EXPECT_THAT(Started(), IsEmpty());
  admission_.Remove(1);
  EXPECT_THAT(Started(), ElementsAre(3, 5, 4));
}

TEST_F(AdmissionTest, SmallRequestsStartBesideLargeOnesOfTheirClient) {
  for (uint64_t id = 1; id <= 5; ++id) WaitWithWork(id, "a", 1000, kPool / 4);
  EXPECT_THAT(Started(), ElementsAre(1, 2, 3));
  WaitWithWork(6, "other", 1000, kPool / 4);  // has less than its share
  for (uint64_t id = 10; id < 14; ++id) WaitWithWork(id, "a", 1, kPool / 128);
  EXPECT_THAT(Started(), ElementsAre(10, 11)) << "those of a thirty-second of the 64 places";
  admission_.Remove(10);
  EXPECT_THAT(Started(), ElementsAre(12));
}

TEST_F(AdmissionTest, LittleWorkDelaysALargeRequestByItsPatienceOnly) {
  for (uint64_t id = 1; id <= 7; ++id) WaitWithWork(id, "a", 10, kPool / 8);
  EXPECT_THAT(Started(), ElementsAre(1, 2, 3, 4, 5, 6, 7));
  WaitWithWork(100, "a", 1000, kPool * 3 / 4);
  uint64_t next = 8;
  for (; now_ < absl::UnixEpoch() + absl::Milliseconds(1900); ++next) {
    now_ += absl::Milliseconds(100);
    admission_.Remove(next - 7);
    WaitWithWork(next, "a", 10, kPool / 8);
    ASSERT_THAT(Started(), ElementsAre(next));
  }
  now_ += absl::Milliseconds(100);
  WaitWithWork(next, "a", 10, kPool / 8);
  for (uint64_t id = next - 7; id < next - 1; ++id) {
    EXPECT_THAT(Started(), IsEmpty()) << "it waits for the memory that becomes free";
    admission_.Remove(id);
  }
  WaitWithWork(200, "a", 1, kPool / 128);
  EXPECT_THAT(Started(), ElementsAre(100, 200));
  admission_.Remove(next - 1);
  EXPECT_THAT(Started(), ElementsAre(next));
}

TEST_F(AdmissionTest, ALargeRequestHoldsBackNoOtherClient) {
  Wait(1, "a", kPool / 2);
  EXPECT_THAT(Started(), ElementsAre(1));
  Wait(2, "b", kPool * 3 / 4);
  Wait(3, "c", kPool / 8);
  EXPECT_THAT(Started(), ElementsAre(3));
}

TEST_F(AdmissionTest, WhileAnotherWaitsAClientGetsNoMoreThanItsShare) {
  for (uint64_t id = 1; id <= 3; ++id) Wait(id, "a", kPool / 4);
  EXPECT_THAT(Started(), ElementsAre(1, 2, 3));
  Wait(4, "a", kPool / 8);
  Wait(5, "b", kPool / 2);
  EXPECT_THAT(Started(), IsEmpty());
  admission_.Remove(1);
  EXPECT_THAT(Started(), IsEmpty()) << "half of the pool is a's already";
  EXPECT_FALSE(admission_.OverShare("a"));
  admission_.Remove(2);
  EXPECT_THAT(Started(), ElementsAre(5, 4));
}

TEST_F(AdmissionTest, SharesFollowTheWeights) {
  for (uint64_t id = 0; id < 64; ++id) {
    Wait(100 + id, "light", kPool / 32);
    Wait(200 + id, "heavy", kPool / 32, 3);
  }
  std::map<bool, int64_t> started;
  for (const uint64_t id : Started()) ++started[id >= 200];
  EXPECT_EQ(started[true] + started[false], 30);  // seven eighths, and a small one of each
  EXPECT_NEAR(static_cast<double>(started[true]), 22, 1);
  EXPECT_EQ(admission_.PartOf("heavy"), 0.75);
}

TEST_F(AdmissionTest, ALargeRequestIsReservedForAfterItsPatience) {
  for (uint64_t id = 1; id <= 6; ++id) Wait(id, "client " + std::to_string(id), kPool / 8);
  EXPECT_EQ(Started().size(), 6u);
  Wait(10, "large", kPool / 2);
  // Others come and go, and each time there is room for them.
  for (uint64_t id = 1; id <= 6; ++id) {
    admission_.Remove(id);
    Wait(20 + id, "client " + std::to_string(id), kPool / 8);
    EXPECT_THAT(Started(), ElementsAre(20 + id));
    EXPECT_EQ(admission_.StarvedClient(now_), nullptr);
  }
  now_ += absl::Seconds(2);
  ASSERT_NE(admission_.StarvedClient(now_), nullptr);
  EXPECT_EQ(*admission_.StarvedClient(now_), "large");
  admission_.Remove(21);
  Wait(31, "client 1", kPool / 8);
  EXPECT_THAT(Started(), IsEmpty());
  Wait(40, "small", kPool / 32);  // what is kept stays for those who need little
  EXPECT_THAT(Started(), ElementsAre(40));
  admission_.Remove(22);
  EXPECT_THAT(Started(), IsEmpty());
  admission_.Remove(23);
  EXPECT_THAT(Started(), ElementsAre(10));
}

TEST_F(AdmissionTest, WhoHasItsShareIsNotStarved) {
  for (uint64_t id = 1; id <= 3; ++id) Wait(id, "patient", kPool / 8);
  EXPECT_EQ(Started().size(), 3u);
  for (uint64_t id = 11; id <= 15; ++id) Wait(id, "other", kPool / 8);
  EXPECT_THAT(Started(), ElementsAre(11, 12, 13, 14));
  now_ += absl::Hours(1);
  EXPECT_EQ(admission_.StarvedClient(now_), nullptr);
  EXPECT_FALSE(admission_.OverShare("patient"));
  EXPECT_FALSE(admission_.OverShare("other")) << "nobody else waits";
}

TEST_F(AdmissionTest, PlacesAreSharedAsWell) {
  for (uint64_t id = 0; id < 100; ++id) Wait(id, "a", 0);
  EXPECT_EQ(Started().size(), 58u) << "all but an eighth, and two as small ones";
  Wait(200, "b", 0);
  EXPECT_THAT(Started(), ElementsAre(200));
  for (uint64_t id = 201; id < 264; ++id) Wait(id, "b", 0);
  for (uint64_t id = 0; id < 58; ++id) admission_.Remove(id);
  int64_t of_b = 1;
  for (const uint64_t id : Started()) of_b += id >= 200 ? 1 : 0;
  EXPECT_NEAR(static_cast<double>(of_b), 30, 1);
}

TEST_F(AdmissionTest, MemoryInPiecesOnlyMakesItWait) {
  Wait(1, "a", 16);
  memory_in_pieces_ = true;
  EXPECT_THAT(Started(), IsEmpty());
  memory_in_pieces_ = false;
  EXPECT_THAT(Started(), ElementsAre(1));
  EXPECT_EQ(admission_.waiting(), 0);
  EXPECT_EQ(admission_.largest_usage(), 1.0 / 64);
  admission_.Remove(1);
  EXPECT_EQ(admission_.largest_usage(), 0);
}

// A client with its requests, which run for some rounds each.
struct Mix {
  std::string name;
  int64_t largest = 0;
  size_t at_once = 0;  // requests, waiting and running
  size_t in_flight = 0;
};

// Random clients that always want more: nothing is held beyond the pool, and every request starts
// in bounded time.
TEST_F(AdmissionTest, NobodyStarvesInAnyMix) {
  constexpr int kRounds = 1500;  // of a tenth of a second
  for (uint32_t seed = 1; seed <= 30; ++seed) {
    std::mt19937 random(seed);
    Admission admission({.pool_bytes = kPool, .max_running = 32});
    std::vector<Mix> mixes;
    for (size_t i = 0; i < 2 + random() % 6; ++i) {
      const int64_t largest[] = {kPool / 64, kPool / 8, kPool / 2, kPool};
      mixes.push_back({"client " + std::to_string(i), largest[random() % 4], 1 + random() % 4});
    }
    struct Live {
      size_t mix = 0;
      int64_t bytes = 0;
      int waits_since = 0;
      int ends = -1;  // round; negative while it waits
    };
    std::map<uint64_t, Live> live;
    uint64_t next = 1;
    int longest_wait = 0;
    absl::Time now = absl::UnixEpoch();
    for (int round = 0; round < kRounds; ++round, now += absl::Milliseconds(100)) {
      for (auto it = live.begin(); it != live.end();) {
        const bool ends = it->second.ends >= 0 && it->second.ends <= round;
        if (ends) {
          admission.Remove(it->first);
          --mixes[it->second.mix].in_flight;
        }
        it = ends ? live.erase(it) : std::next(it);
      }
      for (size_t i = 0; i < mixes.size(); ++i) {
        for (; mixes[i].in_flight < mixes[i].at_once; ++mixes[i].in_flight) {
          const auto bytes = static_cast<int64_t>(random() % (mixes[i].largest + 1));
          const auto work = static_cast<double>(random() % 4);
          admission.Wait(next, {mixes[i].name, 1}, work, bytes, now);
          live[next++] = {i, bytes, round};
        }
      }
      admission.StartWhatFits(now, [&](uint64_t id) {
        live[id].ends = round + 1 + static_cast<int>(random() % 5);
        return true;
      });
      int64_t held = 0;
      for (const auto& [id, request] : live) {
        if (request.ends >= 0) {
          held += request.bytes;
        } else {
          longest_wait = std::max(longest_wait, round - request.waits_since);
        }
      }
      ASSERT_LE(held, kPool);
    }
    // Of up to four requests of each of up to seven clients, none runs for longer than half a
    // second, and each may have to be reserved for after 2 s.
    EXPECT_LT(longest_wait, 4 * 7 * 25) << "seed " << seed;
  }
}

}  // namespace
}  // namespace chorale
