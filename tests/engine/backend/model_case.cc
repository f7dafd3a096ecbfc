#include "tests/engine/backend/model_case.h"

#include <utility>

#include "kernels/ops/random.h"

namespace chorale {

std::vector<int32_t> ModelCase::RandomOrders() const {
  std::vector<int32_t> orders(paths * query_rows);
  for (int64_t p = 0; p < paths; ++p) {
    kernels::DrawOrder(seed, p, query_rows, orders.data() + p * query_rows);
  }
  return orders;
}

ModelCase ModelCase::Prefix(int64_t rows) const {
  ModelCase prefix = *this;
  prefix.context_rows = rows;
  std::erase_if(prefix.append_starts, [rows](int64_t start) { return start >= rows; });
  return prefix;
}

EncodeSpec ModelCase::Encoding(std::shared_ptr<const BackendModel> model,
                               std::shared_ptr<const ResidentContext> prefix) const {
  return {.model = std::move(model),
          .features = XContext(),
          .y = YContext(),
          .memory = memory,
          .seed = seed,
          .append_starts = append_starts,
          .prefix = std::move(prefix)};
}

LoadedCase::LoadedCase(const ModelCase& model_case, BackendDriver& driver, int64_t steps_per_slice)
    : LoadedCase(
          model_case, driver,
          driver.Encode(model_case.Encoding(driver.AddModel(MakeTestModel(model_case.options))),
                        steps_per_slice)) {}

LoadedCase::LoadedCase(const ModelCase& model_case, BackendDriver& driver,
                       std::shared_ptr<const ResidentContext> context)
    : case_(model_case),
      driver_(driver),
      context_(std::move(context)),
      rows_(driver.EncodeRows(context_, case_.XTarget())) {}

TileSpec LoadedCase::Tile(int64_t first, int64_t paths, Order order) const {
  TileSpec tile;
  tile.context = context_;
  tile.query_rows = rows_;
  tile.paths = paths;
  tile.first_mixture = 0;
  if (order == Order::kRandom) {
    const std::vector<int32_t> all = case_.RandomOrders();
    tile.order.assign(all.begin() + first * case_.query_rows,
                      all.begin() + (first + paths) * case_.query_rows);
  }
  return tile;
}

std::unique_ptr<DecodeWork> LoadedCase::DecodeForced(Order order) const {
  return driver_.NewDecode(Tile(order), 0, 0, case_.Values());
}

std::unique_ptr<DecodeWork> LoadedCase::DecodeDrawn(int64_t first, int64_t paths,
                                                    Order order) const {
  return driver_.NewDecode(Tile(first, paths, order), case_.seed, first, {});
}

std::unique_ptr<DensityWork> LoadedCase::Density(const std::vector<float>& values,
                                                 Order order) const {
  return driver_.NewDensity(Tile(order), values);
}

std::unique_ptr<PredictWork> LoadedCase::Predict(int64_t first_row, int64_t rows) const {
  return driver_.NewPredict(context_, rows_, first_row, rows);
}

}  // namespace chorale
