#include "engine/backends/cuda/scratch_arena.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "kernels/layout.h"

namespace chorale {

Scratch& Scratch::operator=(Scratch&& other) noexcept {
  std::swap(arena_, other.arena_);
  std::swap(own_, other.own_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Scratch::~Scratch() {
  if (arena_ != nullptr) arena_->GiveBack(data_, bytes_);
}

ScratchArena::ScratchArena(kernels::cuda::Memory memory) : memory_(std::move(memory)) {
  if (memory_.bytes() > 0) free_[0] = memory_.bytes();
}

absl::StatusOr<Scratch> ScratchArena::Take(int64_t bytes) {
  Scratch scratch;
  scratch.bytes_ = kernels::RoundUp(std::max<int64_t>(bytes, 1), kAlignment);
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    const auto [offset, available] = *it;
    if (available < scratch.bytes_) continue;
    free_.erase(it);
    if (available > scratch.bytes_) free_[offset + scratch.bytes_] = available - scratch.bytes_;
    scratch.arena_ = this;
    scratch.data_ = memory_.At<char>(offset);
    return scratch;
  }
  absl::StatusOr<kernels::cuda::Memory> own = kernels::cuda::Memory::Allocate(
      kernels::cuda::MemoryKind::kDevice, scratch.bytes_, "rows between launches");
  if (!own.ok()) return own.status();
  scratch.own_ = *std::move(own);
  scratch.data_ = scratch.own_.At<char>();
  return scratch;
}

int64_t ScratchArena::free_bytes() const {
  int64_t bytes = 0;
  for (const auto& [offset, available] : free_) bytes += available;
  return bytes;
}

void ScratchArena::GiveBack(char* data, int64_t bytes) {
  const int64_t offset = data - memory_.At<char>();
  auto it = free_.emplace(offset, bytes).first;
  if (const auto next = std::next(it); next != free_.end() && next->first == offset + bytes) {
    it->second += next->second;
    free_.erase(next);
  }
  if (it == free_.begin()) return;
  const auto before = std::prev(it);
  if (before->first + before->second != offset) return;
  before->second += it->second;
  free_.erase(it);
}

}  // namespace chorale
