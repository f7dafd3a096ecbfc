#include "server/rpc/reply_memory.h"

#include "base/fault.h"

namespace chorale {

bool ReplyMemory::TryTake(const std::string& client, int64_t bytes) {
  if (bytes == 0) return true;
  if (FaultAt(FaultPlace::kReplyMemory)) return false;
  MutexLock lock(&mutex_);
  const auto found = by_client_.find(client);
  const int64_t has = found == by_client_.end() ? 0 : found->second;
  if (has + bytes > limit_ - taken_ - bytes) return false;
  by_client_[client] = has + bytes;
  taken_ += bytes;
  return true;
}

void ReplyMemory::GiveBack(const std::string& client, int64_t bytes) {
  if (bytes == 0) return;
  MutexLock lock(&mutex_);
  const auto found = by_client_.find(client);
  found->second -= bytes;
  taken_ -= bytes;
  if (found->second == 0) by_client_.erase(found);
}

}  // namespace chorale
