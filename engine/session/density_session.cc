#include "engine/session/density_session.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/session/mixture_results.h"
#include "engine/session/order_average.h"
#include "engine/session/random_key.h"

namespace chorale {

DensitySession::DensitySession(CallStart start, const SessionEnvironment* environment,
                               std::shared_ptr<const LogDensityRequest> request,
                               Callback<LogDensityResult> done)
    : TiledSession(std::move(start), environment, WorkKind::kDensity),
      request_(std::move(request)),
      done_(std::move(done)) {}

std::vector<EqualPaths> DensitySession::PlanPaths() {
  groups_.emplace(*request_);
  paths_.emplace(&*groups_, request_->vectors * orders_per_vector());
  return paths_->lengths();
}

void DensitySession::Start() {
  random_key_ = RandomKey(*request_->seed, source());
  path_log_density_.resize(request_->vectors * groups_->count() * orders_per_vector());
  result_.known_log_densities.resize(request_->known.sets() * groups_->count());
  const int64_t terms = request_->vectors * groups_->unknown();
  if (request_->want_terms) result_.terms.resize(terms);
  if (request_->want_cdfs) result_.cdfs.resize(terms);
  if (request_->want_mixtures) {
    result_.mixtures = MakeMixtures(terms, config().num_components);
  }
  TiledSession::Start();
}

void DensitySession::StartTile(TileSlot<DensityWork>* slot, PoolRange buffer) {
  const auto& [first_path, paths, positions] = slot->tile;
  std::vector<int32_t> order =
      request_->random_orders > 0
          ? paths_->RandomOrders(random_key_, first_path, paths, orders_per_vector())
          : paths_->GivenOrder(first_path, paths);
  std::vector<float> values = ModelValues(slot->tile, order);
  const bool want_mixtures = request_->want_mixtures || request_->want_cdfs;
  TileSpec tile{resident(), rows(), paths, std::move(order),
                want_mixtures ? 0 : TileSpec::kNoMixtures};
  slot->work = environment().backend->NewDensity({std::move(tile), buffer, std::move(values)});
}

// Returns the values of the tile in the model's units, [P, paths]; `order` is TileSpec::order.
std::vector<float> DensitySession::ModelValues(const PlannedTile& tile,
                                               const std::vector<int32_t>& order) const {
  const auto& [first_path, paths, positions] = tile;
  std::vector<float> values(positions * paths);
  for (int64_t p = 0; p < paths; ++p) {
    const auto [group, path] = paths_->At(first_path + p);
    const int64_t vector = path / orders_per_vector();
    for (int64_t position = 0; position < positions; ++position) {
      double value = 0;
      if (position < groups_->known(group)) {
        value = groups_->KnownValue(group, vector, position);
      } else {
        const auto row =
            order.empty() ? static_cast<int32_t>(position) : order[p * positions + position];
        value = request_->y[vector * groups_->unknown() + groups_->UnknownIndex(row)];
      }
      values[position * paths + p] = context().transform.ToModel(value);
    }
  }
  return values;
}

void DensitySession::CollectTiles(absl::Time now) {
  for (TileSlot<DensityWork>& slot : slots()) {
    if (slot.work == nullptr || !slot.work->done()) continue;
    NoteFirstStep(now);
    TakeTile(slot);
    const int64_t known = groups_->known(paths_->At(slot.tile.first_path).group);
    ReportValues(kind(), slot.tile.paths * (slot.tile.positions - known));
    StartNextTile(&slot);
  }
  if (!AllTilesTaken()) return;
  Average();
  Complete();
}

void DensitySession::TakeTile(const TileSlot<DensityWork>& slot) {
  const auto& [first_path, paths, positions] = slot.tile;
  const FeatureTransform& transform = context().transform;
  const double log_scale = std::log(transform.y_std());
  const absl::Span<const double> log_densities = slot.work->log_densities();  // [P, paths]
  for (int64_t p = 0; p < paths; ++p) {
    const auto [group, path] = paths_->At(first_path + p);
    const int64_t vector = path / orders_per_vector();
    const int64_t known = groups_->known(group);
    if (vector < request_->known.sets()) {
      result_.known_log_densities[vector * groups_->count() + group] =
          KnownLogDensity(log_densities, paths, p, known, transform);
    }
    double sum = 0;
    for (int64_t position = known; position < positions; ++position) {
      const double term = log_densities[position * paths + p] - log_scale;
      sum += term;
      // Terms, cdfs and mixtures require the given order, in which the unknown rows ascend.
      const int64_t out =
          vector * groups_->unknown() + groups_->UnknownIndex(groups_->rows(group)[position]);
      if (request_->want_terms) result_.terms[out] = term;
      if (request_->want_cdfs) {
        result_.cdfs[out] = CdfOf(slot.work->mixture(p, position), transform, request_->y[out]);
      }
      if (request_->want_mixtures) {
        SetMixture(slot.work->mixture(p, position), transform, out, &result_.mixtures);
      }
    }
    const int64_t order = path % orders_per_vector();
    path_log_density_[(vector * groups_->count() + group) * orders_per_vector() + order] = sum;
  }
}

void DensitySession::Average() {
  const int64_t orders = orders_per_vector();
  const int64_t densities = request_->vectors * groups_->count();
  result_.log_density.reserve(densities);
  for (int64_t i = 0; i < densities; ++i) {
    const OrderAverage average =
        AverageOverOrders(absl::MakeConstSpan(path_log_density_).subspan(i * orders, orders));
    result_.log_density.push_back(average.log_mean);
    if (orders >= static_cast<int64_t>(kMinOrdersWithError)) {
      result_.standard_error.push_back(average.standard_error);
    }
  }
  result_.seed = request_->random_orders > 0 ? *request_->seed : 0;
}

void DensitySession::Deliver(absl::Status status, absl::Time now) {
  Answer(done_, std::move(status), std::move(result_), now);
}

}  // namespace chorale
