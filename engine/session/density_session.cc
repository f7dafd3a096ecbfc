#include "engine/session/density_session.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "base/status_macros.h"
#include "engine/session/mixture_results.h"
#include "engine/session/request_validation.h"
#include "engine/session/target_orders.h"

namespace chorale {
namespace {

absl::Status ValidateModelRange(const std::vector<double>& y, const FeatureTransform& transform) {
  for (size_t i = 0; i < y.size(); ++i) {
    if (!std::isfinite(transform.ToModel(y[i]))) {
      return InvalidField(
          absl::StrCat("values[", i, "]"),
          absl::StrCat("is ", y[i], "; in the model's units that is beyond float32"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

DensitySession::DensitySession(CallStart start, const SessionEnvironment* environment,
                               std::shared_ptr<const LogDensityRequest> request,
                               Engine::Callback<LogDensityResult> done)
    : Session(std::move(start), environment),
      request_(std::move(request)),
      done_(std::move(done)) {}

Preparation DensitySession::Prepare(std::shared_ptr<const LogDensityRequest> request,
                                    const Limits* limits, const Backend* backend) {
  Preparation preparation =
      PrepareTargets(request, backend, [request, limits, backend](const ModelConfig& config) {
        return ValidateLogDensity(*request, config, *limits, *backend);
      });
  preparation.finish =
      [request, finish = std::move(preparation.finish)](
          std::shared_ptr<const RegisteredContext> context) -> absl::StatusOr<PreparedRequest> {
    RETURN_IF_ERROR(ValidateModelRange(request->y, context->transform));
    return finish(std::move(context));
  };
  return preparation;
}

TilePlan DensitySession::Plan() const {
  return PlanTiles(*environment().backend, config(), request_->vectors * orders_per_vector(),
                   targets(), environment().max_slices, tile_work());
}

void DensitySession::Start() {
  plan_ = Plan();
  path_log_density_.resize(plan_.paths);
  const int64_t terms = request_->vectors * targets();
  if (request_->want_terms) result_.terms.resize(terms);
  if (request_->want_mixtures) {
    result_.mixtures = MakeMixtures(terms, config().num_components);
  }
  slots_.resize(plan_.slots);
  for (int64_t i = 0; i < plan_.slots; ++i) {
    slots_[i].buffer = std::move(buffers()[i]);
    StartNextTile(&slots_[i]);
  }
}

void DensitySession::StartNextTile(Slot* slot) {
  slot->one_pass.reset();
  slot->step_by_step.reset();
  if (next_tile_ == plan_.tiles) {
    slot->buffer.Reset();
    return;
  }
  const int64_t tile = next_tile_++;
  slot->first_path = plan_.first_path(tile);
  slot->paths = plan_.paths_of(tile);
  std::vector<int32_t> order;
  if (request_->random_orders > 0) {
    order = DrawOrders(request_->seed, slot->first_path, slot->paths, targets());
  }
  std::vector<float> values = ModelValues(*slot, order);
  TileSpec spec{resident(), rows(), slot->paths, std::move(order), request_->want_mixtures};
  Backend* backend = environment().backend;
  const PoolRange buffer = {slot->buffer.range().offset,
                            TileBytes(*backend, config(), targets(), slot->paths, tile_work())};
  if (!step_by_step()) {
    slot->one_pass = backend->NewDensity({std::move(spec), buffer, std::move(values)});
    return;
  }
  DecodeSpec decode;
  decode.tile = std::move(spec);
  decode.buffer = buffer;
  decode.first_path = slot->first_path;
  decode.given = std::move(values);
  slot->step_by_step = backend->NewDecode(std::move(decode));
}

// The values at every place, in the layout that the work wants: [paths, T] for one pass, [T, paths]
// step by step.
std::vector<float> DensitySession::ModelValues(const Slot& slot,
                                               const std::vector<int32_t>& order) const {
  const int64_t places = targets();
  std::vector<float> values(slot.paths * places);
  for (int64_t path = 0; path < slot.paths; ++path) {
    const int64_t vector = (slot.first_path + path) / orders_per_vector();
    for (int64_t place = 0; place < places; ++place) {
      const int64_t target = order.empty() ? place : order[path * places + place];
      const int64_t at = step_by_step() ? place * slot.paths + path : path * places + place;
      values[at] = context().transform.ToModel(request_->y[vector * places + target]);
    }
  }
  return values;
}

void DensitySession::AppendTiles(std::vector<Runnable>* runnable) {
  for (const Slot& slot : slots_) {
    if (slot.one_pass != nullptr) {
      runnable->push_back({slot.one_pass.get(), slot.one_pass->steps_at_this_cost()});
    } else if (slot.step_by_step != nullptr) {
      runnable->push_back({slot.step_by_step.get(), slot.step_by_step->steps_at_this_cost(),
                           slot.step_by_step.get()});
    }
  }
}

void DensitySession::CollectTiles(absl::Time now) {
  bool all_done = true;
  for (Slot& slot : slots_) {
    const Work* work = slot.one_pass != nullptr ? static_cast<const Work*>(slot.one_pass.get())
                                                : slot.step_by_step.get();
    if (work == nullptr) continue;
    if (work->done()) {
      NoteFirstStep(now);
      TakeTile(slot);
      StartNextTile(&slot);
    }
    all_done = all_done && slot.one_pass == nullptr && slot.step_by_step == nullptr;
  }
  if (!all_done) return;
  Average();
  Complete();
}

void DensitySession::TakeTile(const Slot& slot) {
  const int64_t places = targets();
  const double log_scale = std::log(context().transform.y_std());
  const absl::Span<const double> log_densities =
      step_by_step() ? slot.step_by_step->log_densities() : slot.one_pass->log_densities();
  for (int64_t path = 0; path < slot.paths; ++path) {
    const int64_t row = slot.first_path + path;
    double sum = 0;
    for (int64_t place = 0; place < places; ++place) {
      const int64_t at = step_by_step() ? place * slot.paths + path : path * places + place;
      const double term = log_densities[at] - log_scale;
      sum += term;
      // Terms and mixtures come with the order given only: there, place and target are the same.
      if (request_->want_terms) result_.terms[row * places + place] = term;
      if (request_->want_mixtures) {
        const MixtureSpan mixture = step_by_step() ? slot.step_by_step->mixture(path, place)
                                                   : slot.one_pass->mixture(path, place);
        SetMixture(mixture, context().transform, row * places + place, &result_.mixtures);
      }
    }
    path_log_density_[row] = sum;
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
  result_.seed = request_->random_orders > 0 ? request_->seed : 0;
}

void DensitySession::ReleaseResources() {
  slots_.clear();
  Session::ReleaseResources();
}

void DensitySession::Deliver(absl::Status status, absl::Time now) {
  Answer(done_, std::move(status), std::move(result_), now);
}

}  // namespace chorale
