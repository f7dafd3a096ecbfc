#include "engine/scheduling/queue_places.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace chorale {

bool QueuePlaces::TryEnter(uint64_t id, const ClientShare& share,
                           std::shared_ptr<CallControl> control) {
  MutexLock lock(&mutex_);
  const auto [client, is_new] = clients_.try_emplace(share.client);
  if (is_new) {
    client->second.weight = share.weight;
    weight_ += share.weight;
  }
  const auto held = static_cast<int64_t>(client->second.places.size());
  const bool full = static_cast<int64_t>(client_of_.size()) >= places_;
  const bool enters = !full || Displace(client->second.weight, held);
  if (enters) {
    client->second.places.push_back({id, std::move(control)});
    client_of_[id] = client;
  } else if (is_new) {
    weight_ -= client->second.weight;
    clients_.erase(client);
  }
  return enters;
}

double QueuePlaces::FairShare(double weight) const {
  return std::max(1.0, static_cast<double>(places_) * weight / weight_);
}

bool QueuePlaces::Displace(double weight, int64_t held) {
  if (static_cast<double>(held + 1) > FairShare(weight)) return false;
  auto most = clients_.end();
  double most_beyond = 0;
  for (auto client = clients_.begin(); client != clients_.end(); ++client) {
    const double beyond =
        static_cast<double>(client->second.places.size()) - FairShare(client->second.weight);
    if (beyond <= most_beyond) continue;
    most = client;
    most_beyond = beyond;
  }
  if (most == clients_.end()) return false;
  const auto youngest = std::prev(most->second.places.end());
  youngest->control->displaced = true;
  Free(most, youngest);
  return true;
}

void QueuePlaces::Free(Clients::iterator client, std::list<Place>::iterator place) {
  client_of_.erase(place->id);
  client->second.places.erase(place);
  if (!client->second.places.empty()) return;
  weight_ -= client->second.weight;
  if (clients_.size() == 1) weight_ = 0;  // discards rounding errors
  clients_.erase(client);
}

void QueuePlaces::Leave(uint64_t id) {
  MutexLock lock(&mutex_);
  const auto found = client_of_.find(id);
  if (found == client_of_.end()) return;
  const Clients::iterator client = found->second;
  auto& places = client->second.places;
  Free(client, std::find_if(places.begin(), places.end(),
                            [id](const Place& place) { return place.id == id; }));
}

int64_t QueuePlaces::taken() const {
  MutexLock lock(&mutex_);
  return static_cast<int64_t>(client_of_.size());
}

int64_t QueuePlaces::clients() const {
  MutexLock lock(&mutex_);
  return static_cast<int64_t>(clients_.size());
}

}  // namespace chorale
