// The keys of the cell are first copied to panels of their own. The order of work for one group of
// centres, except the first:
//
// clang-format off
//   for each vector of places                     places number the keys of the cell
//     every fourth group: four random numbers     one Philox block in each lane; logarithms
//     priority; keep the largest
//   for each kFmaVectors vectors of keys
//     squared distances to all centres of the group
//     distance, nearest = the smaller
// clang-format on
#include "kernels/ops/spread_in_cells.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "base/integer_math.h"
#include "kernels/cpu/enabled_targets.h"
#include "kernels/cpu/export_kernel.h"
#include "kernels/ops/panel_layout.h"
#include "kernels/ops/step_draw.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/spread_in_cells.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// Include after highway.h: compiled once per target.
#include "hwy/contrib/math/math-inl.h"
#include "kernels/cpu/centres-inl.h"

HWY_BEFORE_NAMESPACE();
namespace chorale::kernels {
namespace HWY_NAMESPACE {

using F64 = hn::ScalableTag<double>;
using U64 = hn::RebindToUnsigned<F64>;
using VU64 = hn::Vec<U64>;
inline constexpr int64_t kLanes64 = HWY_LANES(double);

// Words of a Philox block.
inline constexpr int64_t kWords = 4;
// Places whose random numbers are computed together: in most cells, all.
inline constexpr int64_t kDrawnPlaces = 512;

// -1 / log(1 - u) of the places from first_place on, for word u of the block of each key.
struct alignas(64) CellDraws {
  double factors[kWords][kDrawnPlaces];
  int64_t first_place = -1;
  int64_t block = -1;  // floor(group / 4)
  int64_t first_word = 0;
  int64_t end_word = 0;
};

// The products of the lower halves.
HWY_INLINE VU64 Product(VU64 a, uint32_t b) {
  const U64 d;
#if HWY_TARGET == HWY_SCALAR
  return hn::Set(d, uint64_t{static_cast<uint32_t>(hn::GetLane(a))} * b);
#else
  const hn::Repartition<uint32_t, U64> d32;
  return hn::MulEven(hn::BitCast(d32, a), hn::BitCast(d32, hn::Set(d, uint64_t{b})));
#endif
}

// One Philox block in each lane, of `step`. Only the lower halves of the words are defined.
HWY_INLINE void PhiloxBlocks(uint64_t seed, uint64_t path, VU64 step, VU64 (&word)[kWords]) {
  const U64 d;
  auto key0 = static_cast<uint32_t>(seed);
  auto key1 = static_cast<uint32_t>(seed >> 32);
  VU64 x0 = hn::Set(d, path & 0xFFFFFFFFu);
  VU64 x1 = step;
  VU64 x2 = hn::Set(d, path >> 32);
  VU64 x3 = hn::Set(d, static_cast<uint64_t>(RandomStream::kCellCentre));
  for (int round = 0; round < 10; ++round) {
    const VU64 product0 = Product(x0, 0xD2511F53u);
    const VU64 product1 = Product(x2, 0xCD9E8D57u);
    x0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(product1), x1), hn::Set(d, uint64_t{key0}));
    x2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(product0), x3), hn::Set(d, uint64_t{key1}));
    x1 = product1;
    x3 = product0;
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  word[0] = x0;
  word[1] = x1;
  word[2] = x2;
  word[3] = x3;
}

// -1 / log(1 - (r + 1/2) 2^-32) of the lower half r of a word.
HWY_INLINE hn::Vec<F64> FactorOfWord(VU64 word) {
  const F64 d;
  const U64 du;
  const VU64 low = hn::And(word, hn::Set(du, uint64_t{0xFFFFFFFF}));
  // The bits of 2^52 + r.
  const auto shifted = hn::BitCast(d, hn::Or(low, hn::Set(du, uint64_t{0x4330000000000000})));
  const auto r = hn::Sub(shifted, hn::Set(d, 0x1p52));
  const auto rest = hn::Mul(hn::Sub(hn::Set(d, 0x1p32 - 0.5), r), hn::Set(d, 0x1p-32));  // exact
  return hn::Div(hn::Set(d, -1.0), hn::Log(d, rest));
}

HWY_NOINLINE void DrawFactors(const SpreadInCellParams& p, int64_t places, CellDraws& draws) {
  const U64 d;
  const hn::Rebind<uint32_t, U64> d32;
  alignas(64) uint32_t step[kDrawnPlaces] = {};
  const int64_t keys = std::min(places, p.cell_keys - draws.first_place);
  std::copy_n(p.member + draws.first_place, keys, step);
  const uint64_t path =
      (static_cast<uint64_t>(p.stream) << 32) | static_cast<uint64_t>(draws.block);
  for (int64_t i = 0; i < places; i += kLanes64) {
    VU64 word[kWords];
    PhiloxBlocks(p.seed, path, hn::PromoteTo(d, hn::Load(d32, step + i)), word);
    for (int64_t w = draws.first_word; w < draws.end_word; ++w) {
      hn::Store(FactorOfWord(word[w]), F64(), draws.factors[w] + i);
    }
  }
}

// Makes the factors of a group available for some places.
void RequireFactors(const SpreadInCellParams& p, int64_t first_place, int64_t places, int64_t group,
                    CellDraws& draws) {
  const int64_t word = group % kWords;
  if (draws.first_place == first_place && draws.block == group / kWords &&
      word >= draws.first_word && word < draws.end_word) {
    return;
  }
  draws.first_place = first_place;
  draws.block = group / kWords;
  draws.first_word = word;
  // The factors of later groups would be overwritten by those of other places.
  const bool all_places = p.cell_keys <= kDrawnPlaces;
  const int64_t groups_left = CeilDiv(p.end_centre, kCentresAtOnce) + 3 - group;
  draws.end_word =
      all_places ? std::min(kWords, word + std::max<int64_t>(groups_left, 1)) : word + 1;
  DrawFactors(p, places, draws);
}

// Adds the priorities of some places.
HWY_NOINLINE void AddPriorities(const SpreadInCellParams& p, int64_t first_place, int64_t places,
                                const double* factors, LargestPriorities& largest) {
  const F64 d;
  const hn::Rebind<float, F64> d32;
  alignas(64) double priorities[kLanes64];
  for (int64_t i = 0; i < places; i += kLanes64) {
    const int64_t place = first_place + i;
    const auto square = hn::PromoteTo(d, hn::LoadU(d32, p.distance + place));
    const auto value =
        hn::Mul(hn::LoadU(d, p.cell_weight + place), hn::Max(square, hn::Set(d, kLeastSquare)));
    const auto positive = hn::IfThenElseZero(hn::Gt(value, hn::Zero(d)), value);  // not NaN
    const auto priority =
        hn::IfThenElse(hn::Lt(square, hn::Zero(d)), hn::Set(d, -1.0),  // of a centre
                       hn::Mul(positive, hn::Load(d, factors + i)));
    if (hn::AllFalse(d, hn::Gt(priority, hn::Set(d, largest.threshold())))) continue;
    hn::Store(priority, d, priorities);
    for (int64_t lane = 0; lane < kLanes64; ++lane) {
      if (priorities[lane] > largest.threshold()) largest.Add(priorities[lane], place + lane);
    }
  }
}

// Copies the keys and the weights of the cell, and resets its state.
void Gather(const SpreadInCellParams& p) {
  const int64_t padded = RoundUp(p.cell_keys, kPanel);
  for (int64_t place = 0; place < padded; ++place) {
    float* to = p.cell_panels + (place / kPanel) * p.head_dim * kPanel + place % kPanel;
    if (place >= p.cell_keys) {
      for (int64_t i = 0; i < p.head_dim; ++i) to[i * kPanel] = 0;
      p.cell_weight[place] = 0;
      p.distance[place] = -1;  // never drawn
      continue;
    }
    const int64_t key = p.member[place];
    const float* from = p.keys + (key / kPanel) * p.head_dim * kPanel + key % kPanel;
    for (int64_t i = 0; i < p.head_dim; ++i) to[i * kPanel] = from[i * kPanel];
    p.cell_weight[place] = p.weight[key];
    p.distance[place] = std::numeric_limits<float>::infinity();
  }
  std::fill_n(p.nearest_place, padded, 0);
}

// Takes the centres of a group, whose index is `index`.
void TakeGroup(const SpreadInCellParams& p, const CentredKeys& cell, int64_t index,
               CellDraws& draws, CentreGroup& group) {
  if (group.first == 0) {
    const int32_t* const at = std::lower_bound(p.member, p.member + p.cell_keys, p.coarse_centre);
    group.Take(cell, 0, static_cast<int32_t>(at - p.member));
    return;
  }
  LargestPriorities largest(group.count);
  const int64_t padded = RoundUp(p.cell_keys, kPanel);
  for (int64_t place = 0; place < padded; place += kDrawnPlaces) {
    const int64_t places = std::min(kDrawnPlaces, padded - place);
    RequireFactors(p, place, places, index, draws);
    AddPriorities(p, place, places, draws.factors[index % kWords], largest);
  }
  for (int64_t c = 0; c < group.count; ++c) group.Take(cell, c, largest.key(c));
}

void SpreadInCell(const SpreadInCellParams& p) {
  if (p.first_centre == 0) Gather(p);
  const CentredKeys cell = {.keys = p.cell_panels,
                            .distance = p.distance,
                            .nearest = p.nearest_place,
                            .n = p.cell_keys,
                            .head_dim = p.head_dim};
  CellDraws draws;
  CentreGroup group;
  // Groups 0 to 3 have the first kCentresAtOnce = 8 centres.
  int64_t index = p.first_centre == 0 ? 0 : 3 + p.first_centre / kCentresAtOnce;
  for (group.first = p.first_centre; group.first < p.end_centre; ++index) {
    const int64_t size = std::clamp<int64_t>(group.first, 1, kCentresAtOnce);
    group.count = std::min(size, p.end_centre - group.first);
    TakeGroup(p, cell, index, draws, group);
    Join(cell, group);
    group.first += group.count;
  }
  if (p.end_centre < p.centre_count) return;
  for (int64_t place = 0; place < p.cell_keys; ++place) {
    p.nearest[p.member[place]] = static_cast<int32_t>(p.first_index + p.nearest_place[place]);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace chorale::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
CHORALE_EXPORT_KERNEL(SpreadInCell)
#endif  // HWY_ONCE
