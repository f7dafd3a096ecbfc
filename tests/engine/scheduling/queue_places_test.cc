#include "engine/scheduling/queue_places.h"

#include <map>
#include <random>
#include <set>
#include <string>

#include "gtest/gtest.h"

namespace chorale {
namespace {

class QueuePlacesTest : public ::testing::Test {
 protected:
  // The new request's control; null if it was refused.
  std::shared_ptr<CallControl> Enter(QueuePlaces* places, const std::string& client,
                                     double weight = 1) {
    auto control = std::make_shared<CallControl>();
    return places->TryEnter(next_++, {client, weight}, control) ? control : nullptr;
  }

  uint64_t next_ = 1;
};

TEST_F(QueuePlacesTest, OneClientMayTakeAllAndIsThenRefused) {
  QueuePlaces places(4);
  for (int i = 0; i < 4; ++i) EXPECT_NE(Enter(&places, "a"), nullptr);
  EXPECT_EQ(Enter(&places, "a"), nullptr);
  EXPECT_EQ(places.taken(), 4);
  EXPECT_EQ(places.clients(), 1);
  places.Leave(2);
  EXPECT_NE(Enter(&places, "a"), nullptr);
  places.Leave(2);  // gone already
  EXPECT_EQ(places.taken(), 4);
}

TEST_F(QueuePlacesTest, ANewcomerDisplacesTheYoungestOfTheClientOverItsShare) {
  QueuePlaces places(4);
  std::vector<std::shared_ptr<CallControl>> of_a;
  for (int i = 0; i < 4; ++i) of_a.push_back(Enter(&places, "a"));
  const auto first = Enter(&places, "b");
  const auto second = Enter(&places, "b");
  ASSERT_NE(first, nullptr);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(Enter(&places, "b"), nullptr) << "more than its share";
  EXPECT_EQ(Enter(&places, "a"), nullptr);
  EXPECT_FALSE(of_a[0]->displaced);
  EXPECT_FALSE(of_a[1]->displaced);
  EXPECT_TRUE(of_a[2]->displaced);
  EXPECT_TRUE(of_a[3]->displaced);
  EXPECT_FALSE(first->displaced || second->displaced);
  EXPECT_EQ(places.taken(), 4);
}

TEST_F(QueuePlacesTest, WeightsDivideThePlaces) {
  QueuePlaces places(8);
  for (int i = 0; i < 8; ++i) Enter(&places, "light");
  int entered = 0;
  while (Enter(&places, "heavy", 3) != nullptr) ++entered;
  EXPECT_EQ(entered, 6);
}

TEST_F(QueuePlacesTest, WithMoreClientsThanPlacesNobodyIsDisplaced) {
  QueuePlaces places(3);
  std::vector<std::shared_ptr<CallControl>> first;
  for (const char* client : {"a", "b", "c"}) first.push_back(Enter(&places, client));
  for (const char* client : {"d", "e"}) EXPECT_EQ(Enter(&places, client), nullptr);
  for (const auto& control : first) EXPECT_FALSE(control->displaced);
}

// In any mix: never more than all places are taken; nobody within its share is displaced; nobody
// within its share is refused while another is over its own.
TEST_F(QueuePlacesTest, SharesHoldInAnyMix) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const auto size = static_cast<int64_t>(1 + random() % 12);
    QueuePlaces places(size);
    std::map<std::string, std::map<uint64_t, std::shared_ptr<CallControl>>> held;
    std::map<std::string, double> weights;
    for (int i = 0; i < 5; ++i) weights[std::string(1, static_cast<char>('a' + i))] = 1 + i % 3;
    for (int i = 0; i < 300; ++i) {
      const std::string client(1, static_cast<char>('a' + random() % 5));
      if (random() % 3 == 0 && !held[client].empty()) {
        places.Leave(held[client].begin()->first);
        held[client].erase(held[client].begin());
        continue;
      }
      std::map<std::string, int64_t> before;
      double weight = held[client].empty() ? weights[client] : 0;
      for (const auto& [name, requests] : held) {
        before[name] = static_cast<int64_t>(requests.size());
        if (!requests.empty()) weight += weights[name];
      }
      const auto share = [&](const std::string& name) {
        return std::max(1.0, static_cast<double>(size) * weights[name] / weight);
      };
      const uint64_t id = next_;
      const auto control = Enter(&places, client, weights[client]);
      if (control != nullptr) held[client][id] = control;
      int64_t displaced = 0;
      int64_t total = 0;
      for (auto& [name, requests] : held) {
        const auto gone = std::erase_if(
            requests, [](const auto& request) { return request.second->displaced.load(); });
        displaced += static_cast<int64_t>(gone);
        total += static_cast<int64_t>(requests.size());
        if (gone > 0) {
          ASSERT_GT(static_cast<double>(before[name]), share(name));
        }
      }
      ASSERT_EQ(places.taken(), total);
      ASSERT_LE(total, size);
      ASSERT_LE(displaced, control != nullptr ? 1 : 0);
      if (control == nullptr && static_cast<double>(before[client] + 1) <= share(client)) {
        for (const auto& [name, count] : before) {
          ASSERT_LE(static_cast<double>(count), share(name)) << "refused beside one over its share";
        }
      }
    }
  }
}

}  // namespace
}  // namespace chorale
