#include "engine/scheduling/admission.h"

#include <algorithm>

#include "base/require.h"

namespace chorale {
namespace {

constexpr int64_t kKeptPart = 8;    // 1/8 of both resources is kept
constexpr int64_t kSmallPart = 32;  // the small requests of a client hold at most 1/32

}  // namespace

Admission::Admission(const Limits& limits)
    : limits_(limits),
      kept_bytes_(limits.pool_bytes / kKeptPart),
      kept_places_(limits.max_running / kKeptPart) {}

void Admission::Wait(uint64_t id, const ClientShare& share, double work, int64_t bytes,
                     absl::Time since) {
  const auto client = clients_.try_emplace(share.client).first;
  client->second.weight = share.weight;
  const bool fresh = waiting_of_.emplace(id, client).second && !running_of_.contains(id);
  Require(fresh, "a request waits for admission once");
  std::list<Request>& queue = client->second.queue;
  const auto next = std::find_if(queue.begin(), queue.end(),
                                 [work](const Request& other) { return other.work > work; });
  queue.insert(next, {id, work, bytes, since});
  ++waiting_;
}

void Admission::Remove(uint64_t id) {
  if (const auto waits = waiting_of_.find(id); waits != waiting_of_.end()) {
    const Clients::iterator client = waits->second;
    client->second.queue.remove_if([id](const Request& request) { return request.id == id; });
    waiting_of_.erase(waits);
    --waiting_;
    Forget(client);
  } else if (const auto runs = running_of_.find(id); runs != running_of_.end()) {
    const Running running = runs->second;
    running_of_.erase(runs);
    Client& client = running.client->second;
    client.held.Remove(running.bytes);
    held_.Remove(running.bytes);
    if (running.small) {
      client.small.Remove(running.bytes);
      small_.Remove(running.bytes);
    }
    Forget(running.client);
  }
}

void Admission::Forget(Clients::iterator client) {
  if (client->second.queue.empty() && client->second.held.places == 0) clients_.erase(client);
}

// ---- Shares --------------------------------------------------------------------------------

double Admission::Usage(const Client& client) const {
  const double places =
      static_cast<double>(client.held.places) / static_cast<double>(limits_.max_running);
  const double bytes = limits_.pool_bytes > 0 ? static_cast<double>(client.held.bytes) /
                                                    static_cast<double>(limits_.pool_bytes)
                                              : 0;
  return std::max(places, bytes) / client.weight;
}

double Admission::WeightOfAll() const {
  double weight = 0;
  for (const auto& [name, client] : clients_) weight += client.weight;
  return weight;
}

bool Admission::WithinShare(const Client& client, int64_t bytes) const {
  const double part = client.weight / WeightOfAll();
  return static_cast<double>(client.held.bytes + bytes) <=
             part * static_cast<double>(limits_.pool_bytes) &&
         static_cast<double>(client.held.places + 1) <=
             std::max(1.0, part * static_cast<double>(limits_.max_running));
}

bool Admission::IsSmall(const Client& client, int64_t bytes) const {
  return client.small.bytes + bytes <= limits_.pool_bytes / kSmallPart &&
         client.small.places < std::max<int64_t>(1, limits_.max_running / kSmallPart);
}

bool Admission::Entitled(const Client& client, int64_t bytes) const {
  return client.held.places == 0 || WithinShare(client, bytes);
}

double Admission::PartOf(absl::string_view client) const {
  const auto found = clients_.find(client);
  return found == clients_.end() ? 1 : found->second.weight / WeightOfAll();
}

bool Admission::OverShare(absl::string_view client) const {
  const auto found = clients_.find(client);
  if (found == clients_.end() || found->second.held.places == 0) return false;
  const bool another_waits = waiting_ > static_cast<int64_t>(found->second.queue.size());
  const double part = found->second.weight / WeightOfAll();
  return another_waits && Usage(found->second) * found->second.weight > part;
}

double Admission::largest_usage() const {
  double largest = 0;
  for (const auto& [name, client] : clients_) {
    largest = std::max(largest, Usage(client) * client.weight);
  }
  return largest;
}

// ---- Starting ------------------------------------------------------------------------------

std::list<Admission::Request>::const_iterator Admission::OldestOf(const Client& client) {
  return std::min_element(client.queue.begin(), client.queue.end(),
                          [](const Request& a, const Request& b) { return a.since < b.since; });
}

Admission::Reservation Admission::Reserve(absl::Time now) const {
  Reservation reservation;
  absl::Time oldest = now - limits_.patience;
  for (const auto& [name, client] : clients_) {
    const auto request = OldestOf(client);
    if (request == client.queue.end()) continue;
    if (request->since > oldest || !Entitled(client, request->bytes)) continue;
    oldest = request->since;
    reservation = {&client, *request};
  }
  return reservation;
}

const std::string* Admission::StarvedClient(absl::Time now) const {
  const Reservation starved = Reserve(now);
  for (const auto& [name, client] : clients_) {
    if (&client == starved.client) return &name;
  }
  return nullptr;
}

bool Admission::FitsBeside(const Reservation& reserved, const Request& request, bool small) const {
  const int64_t bytes = request.bytes;
  const int64_t free_bytes = limits_.pool_bytes - held_.bytes - bytes;
  const int64_t free_places = limits_.max_running - held_.places - 1;
  if (free_bytes < 0 || free_places < 0) return false;
  const int64_t all_but_kept = limits_.pool_bytes - kept_bytes_;
  const bool leaves_reserved = reserved.client == nullptr || reserved.request.id == request.id ||
                               free_bytes >= reserved.request.bytes;
  if (small) {
    return leaves_reserved ||
           (reserved.request.bytes <= all_but_kept && small_.bytes + bytes <= kept_bytes_);
  }
  // The kept slots are free, or held by small requests.
  const bool leaves_places = held_.places - small_.places + 1 <= limits_.max_running - kept_places_;
  if (!leaves_places) return false;
  if (bytes == 0) return true;
  const bool leaves_kept = held_.bytes - small_.bytes + bytes <= all_but_kept;
  return leaves_reserved && (leaves_kept || bytes > all_but_kept);
}

bool Admission::StartOne(Clients::iterator entry, bool behind, const Reservation& reserved,
                         absl::Time now, absl::FunctionRef<bool(uint64_t id)> start) {
  Client& client = entry->second;
  const auto oldest = OldestOf(client);
  const bool oldest_is_first = now - oldest->since >= limits_.patience;
  std::vector<std::list<Request>::const_iterator> order;
  if (oldest_is_first) order.push_back(oldest);
  for (auto request = client.queue.cbegin(); request != client.queue.cend(); ++request) {
    if (!oldest_is_first || request != oldest) order.push_back(request);
  }
  bool bytes_wait = false;
  for (const auto request : order) {
    const int64_t bytes = request->bytes;
    const bool small = IsSmall(client, bytes);
    if (bytes > 0 && bytes_wait && !small) continue;
    const bool starts = (small || !behind || Entitled(client, bytes)) &&
                        FitsBeside(reserved, *request, small) && start(request->id);
    if (!starts) {
      bytes_wait = bytes_wait || bytes > 0;
      if (bytes == 0) return false;  // no slot is free, for any request
      continue;
    }
    waiting_of_.erase(request->id);
    running_of_[request->id] = {entry, bytes, small};
    client.held.Add(bytes);
    held_.Add(bytes);
    if (small) {
      client.small.Add(bytes);
      small_.Add(bytes);
    }
    client.queue.erase(request);
    --waiting_;
    return true;
  }
  return false;
}

void Admission::StartWhatFits(absl::Time now, absl::FunctionRef<bool(uint64_t id)> start) {
  for (bool started = true; started && waiting_ > 0;) {
    started = false;
    std::vector<Clients::iterator> order;
    for (auto client = clients_.begin(); client != clients_.end(); ++client) {
      if (!client->second.queue.empty()) order.push_back(client);
    }
    std::stable_sort(order.begin(), order.end(), [this](const auto& a, const auto& b) {
      const double usage_of_a = Usage(a->second);
      const double usage_of_b = Usage(b->second);
      if (usage_of_a != usage_of_b) return usage_of_a < usage_of_b;
      return OldestOf(a->second)->since < OldestOf(b->second)->since;
    });
    const Reservation reserved = Reserve(now);
    for (size_t i = 0; i < order.size() && !started; ++i) {
      started = StartOne(order[i], /*behind=*/i > 0, reserved, now, start);
    }
  }
}

}  // namespace chorale
