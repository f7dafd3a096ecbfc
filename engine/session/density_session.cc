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

void DensitySession::Start() {
  random_key_ = RandomKey(*request_->seed, source());
  path_rows_.emplace(request_->known.rows, query_rows());
  path_log_density_.resize(paths());
  result_.known_log_densities.resize(request_->known.sets());
  const int64_t terms = request_->vectors * path_rows_->unknown();
  if (request_->want_terms) result_.terms.resize(terms);
  if (request_->want_cdfs) result_.cdfs.resize(terms);
  if (request_->want_mixtures) {
    result_.mixtures = MakeMixtures(terms, config().num_components);
  }
  TiledSession::Start();
}

void DensitySession::StartTile(TileSlot<DensityWork>* slot, PoolRange buffer) {
  std::vector<int32_t> order =
      request_->random_orders > 0
          ? path_rows_->RandomOrders(random_key_, slot->first_path, slot->paths)
          : path_rows_->GivenOrder(slot->paths);
  std::vector<float> values = ModelValues(*slot, order);
  TileSpec tile{resident(), rows(), slot->paths, std::move(order),
                request_->want_mixtures || request_->want_cdfs};
  slot->work = environment().backend->NewDensity({std::move(tile), buffer, std::move(values)});
}

// Returns the value of query row `row`, which has this position on the path.
double DensitySession::ValueOf(int64_t path, int64_t position, int32_t row) const {
  const int64_t vector = path / orders_per_vector();
  if (position < path_rows_->known()) return request_->known.value(vector, position);
  return request_->y[vector * path_rows_->unknown() + path_rows_->UnknownIndex(row)];
}

// Returns the values of the tile in the model's units, [T, paths]; `order` is [paths, T].
std::vector<float> DensitySession::ModelValues(const TileSlot<DensityWork>& slot,
                                               const std::vector<int32_t>& order) const {
  std::vector<float> values(query_rows() * slot.paths);
  for (int64_t path = 0; path < slot.paths; ++path) {
    for (int64_t position = 0; position < query_rows(); ++position) {
      const auto row =
          order.empty() ? static_cast<int32_t>(position) : order[path * query_rows() + position];
      values[position * slot.paths + path] =
          context().transform.ToModel(ValueOf(slot.first_path + path, position, row));
    }
  }
  return values;
}

void DensitySession::CollectTiles(absl::Time now) {
  for (TileSlot<DensityWork>& slot : slots()) {
    if (slot.work == nullptr || !slot.work->done()) continue;
    NoteFirstStep(now);
    TakeTile(slot);
    ReportValues(kind(), slot.paths * path_rows_->unknown());
    StartNextTile(&slot);
  }
  if (!AllTilesTaken()) return;
  Average();
  Complete();
}

void DensitySession::TakeTile(const TileSlot<DensityWork>& slot) {
  const double log_scale = std::log(context().transform.y_std());
  const absl::Span<const double> log_densities = slot.work->log_densities();  // [T, paths]
  const int64_t known = path_rows_->known();
  for (int64_t path = 0; path < slot.paths; ++path) {
    const int64_t path_of_request = slot.first_path + path;
    const auto term_at = [&](int64_t position) {
      return log_densities[position * slot.paths + path] - log_scale;
    };
    double sum = 0;
    for (int64_t position = 0; position < known; ++position) sum += term_at(position);
    const int64_t vector = path_of_request / orders_per_vector();
    if (vector < request_->known.sets()) result_.known_log_densities[vector] = sum;
    sum = 0;
    for (int64_t position = known; position < query_rows(); ++position) {
      const double term = term_at(position);
      sum += term;
      // Terms, cdfs and mixtures require the given order, in which the unknown rows ascend.
      const int64_t out = path_of_request * path_rows_->unknown() + position - known;
      if (request_->want_terms) result_.terms[out] = term;
      if (request_->want_cdfs) {
        result_.cdfs[out] =
            CdfOf(slot.work->mixture(path, position), context().transform, request_->y[out]);
      }
      if (request_->want_mixtures) {
        SetMixture(slot.work->mixture(path, position), context().transform, out, &result_.mixtures);
      }
    }
    path_log_density_[path_of_request] = sum;
  }
}

void DensitySession::Average() {
  const int64_t orders = orders_per_vector();
  result_.log_density.reserve(request_->vectors);
  for (int64_t b = 0; b < request_->vectors; ++b) {
    const OrderAverage average =
        AverageOverOrders(absl::MakeConstSpan(path_log_density_).subspan(b * orders, orders));
    result_.log_density.push_back(average.log_mean);
    if (orders >= 2) result_.standard_error.push_back(average.standard_error);
  }
  result_.seed = request_->random_orders > 0 ? *request_->seed : 0;
}

void DensitySession::Deliver(absl::Status status, absl::Time now) {
  Answer(done_, std::move(status), std::move(result_), now);
}

}  // namespace chorale
