// Starts requests, and rejects requests that would wait too long.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "engine/scheduling/engine_loop.h"

namespace chorale {
namespace {

// The duration of load after which the measured rate is used: the rate under another load may
// differ.
constexpr absl::Duration kMeasured = absl::Seconds(1);
// The minimum time for which a stream must be unread before it may be ended: a reader may only be
// slow.
constexpr absl::Duration kUnread = absl::Seconds(2);

}  // namespace

bool EngineLoop::TryEnterQueue(const Session& session, std::shared_ptr<CallControl> control) {
  return places_.TryEnter(session.id(), session.share(), std::move(control));
}

void EngineLoop::LeaveQueue(Active* active) {
  active->queued = false;
  if (active->waits && !active->wait_judged) --unjudged_;
  places_.Leave(active->session->id());
}

void EngineLoop::Admit(absl::Time now) {
  room_given_back_ = false;
  cache_.PlaceWaiting(now);
  // A context that has its space, or has lost its prefix, is encoded for requests like any other.
  std::erase_if(successors_, [](const ContextCache::Pin& pin) { return !pin.keeps_prefix(); });
  for (auto& context : cache_.TakeReads()) request_read_(std::move(context));
  for (auto& task : cache_.TakeFileTasks(now)) files_.run(std::move(task));
  for (Active& active : sessions_) {
    Session* session = active.session.get();
    if (active.queued) session->CheckContext(now);
    if (active.waits || session->state() != Session::State::kWaitingForAdmission) continue;
    const std::vector<int64_t> ranges = session->plan().ranges();
    admission_.Wait(session->id(), session->share(), active.requested.flops,
                    std::accumulate(ranges.begin(), ranges.end(), int64_t{0}), now);
    active.waits = true;
    ++unjudged_;
  }
  admission_.StartWhatFits(now, [&](uint64_t id) { return Start(id, now); });
  if (admission_.waiting() == 0) load_began_ = absl::InfiniteFuture();
  load_began_ = std::min(load_began_, now);
  RefuseHopeless(now);
  PublishStats();
}

bool EngineLoop::Start(uint64_t id, absl::Time now) {
  Active& active = *by_id_.at(id);
  const std::vector<int64_t> ranges = active.session->plan().ranges();
  std::vector<BufferPool::Lease> leases = buffers_.TryLease(ranges);
  if (leases.size() < ranges.size()) return false;
  active.session->Admit(std::move(leases), now);
  active.is_short = active.requested.flops < plan_.TickFlops();
  active.lane = active.session->share().client;
  if (active.is_short) active.lane += " (short)";
  LeaveQueue(&active);
  ++running_;
  return true;
}

void EngineLoop::RefuseHopeless(absl::Time now) {
  if (unjudged_ == 0 || now - load_began_ < kMeasured) return;
  // In the order in which the requests of a client are served.
  std::vector<ActiveList::iterator> waiting;
  for (auto it = sessions_.begin(); it != sessions_.end(); ++it) {
    if (it->queued && it->waits) waiting.push_back(it);
  }
  std::stable_sort(waiting.begin(), waiting.end(), [](const auto& a, const auto& b) {
    return a->requested.flops < b->requested.flops;
  });
  std::map<std::string, FlopsOfTick> ahead;  // by client
  for (const ActiveList::iterator it : waiting) {
    Active& active = *it;
    FlopsOfTick& flops = ahead[active.session->share().client];
    const absl::Duration wait =
        plan_.TimeOf(flops) / admission_.PartOf(active.session->share().client);
    const absl::Duration limit = std::min(options_.max_queue_wait - active.session->TimeQueued(now),
                                          active.session->deadline() - now);
    if (!std::exchange(active.wait_judged, true)) {
      --unjudged_;
      if (wait > limit) {
        metrics_->Rejected("backlog");
        Finish(it,
               ExhaustedRetryAfter(
                   ErrorReason::kQueueTimeout,
                   absl::StrCat("the queued work of this client ahead of this request takes about ",
                                absl::FormatDuration(absl::Ceil(wait, absl::Seconds(1))),
                                ", longer than the request may wait; retry later"),
                   std::max(options_.retry_delay, wait - limit)));
        continue;
      }
    }
    (active.requested.kind == WorkKind::kDecode ? flops.decode : flops.other) +=
        active.requested.flops;
  }
}

void EngineLoop::EndUnread(absl::Time now) {
  const std::string* const starved = admission_.StarvedClient(now);
  if (starved == nullptr) return;
  auto longest = sessions_.end();
  for (auto it = sessions_.begin(); it != sessions_.end(); ++it) {
    if (it->queued || now - it->unread_since < kUnread) continue;
    if (longest != sessions_.end() && it->unread_since >= longest->unread_since) continue;
    const std::string& client = it->session->share().client;
    if (client != *starved && admission_.OverShare(client)) longest = it;
  }
  if (longest == sessions_.end()) return;
  metrics_->UnreadStream();
  Finish(longest, ExhaustedRetryAfter(ErrorReason::kResponsesUnread,
                                      "the client did not read the stream, holds more than its "
                                      "share of memory, and another client waits for this memory",
                                      options_.retry_delay));
}

}  // namespace chorale
