// Any bytes that a client can send are either refused with a reason or decoded into a request that
// the engine may rely on.
//
// Input: one byte that selects the call, then messages, each behind its length (two bytes, little-
// endian). Calls with one message read the first.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "chorale/v1/chorale.pb.h"
#include "engine/data/append_rows.h"
#include "engine/data/dataset_codec.h"
#include "engine/data/limits.h"
#include "engine/data/query_columns.h"
#include "server/codec/dataset_assembler.h"
#include "server/codec/request_decoder.h"
#include "server/codec/table_decoder.h"

namespace chorale {
namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

void RequireRefusal(const absl::Status& status) {
  Require(status.code() == absl::StatusCode::kInvalidArgument);
  Require(!status.message().empty());
}

std::vector<absl::string_view> SplitMessages(absl::string_view input) {
  std::vector<absl::string_view> messages;
  while (input.size() >= 2) {
    const size_t length = static_cast<uint8_t>(input[0]) | static_cast<uint8_t>(input[1]) << 8;
    messages.push_back(input.substr(2, length));
    input.remove_prefix(2 + messages.back().size());
  }
  return messages;
}

void RequireSound(const Table& table) {
  Require(!table.columns.empty() && table.rows() > 0);
  for (const Column& column : table.columns) {
    Require(!column.name.empty() && column.rows() == table.rows());
    for (const double number : column.numbers) Require(!std::isinf(number));
    for (const int32_t code : column.codes) {
      Require(code >= kMissingCode && code < static_cast<int64_t>(column.categories.size()));
    }
  }
}

// Converts the columns to every type that a context's column can have.
void MatchWithOtherTypes(const Table& table) {
  for (const ColumnType type : {ColumnType::kNumeric, ColumnType::kCategorical}) {
    for (const Meaning meaning : {Meaning::kNumber, Meaning::kBoolean, Meaning::kDate}) {
      for (const Column& column : table.columns) {
        const FeatureColumns context({{.name = column.name, .type = type, .meaning = meaning}});
        const absl::StatusOr<QueryColumns> matched =
            MatchQueryRows(context, table, ExtraColumns::kIgnore);
        if (!matched.ok()) {
          RequireRefusal(matched.status());
          continue;
        }
        const Column& converted = (*matched)[0];
        Require(converted.type == type && converted.rows() == table.rows());
        for (const double number : converted.numbers) Require(!std::isinf(number));
      }
    }
  }
}

void DecodeOnePredict(absl::string_view bytes) {
  v1::PredictRequest message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
  const absl::StatusOr<PredictRequest> request = DecodePredict(message, Limits());
  if (!request.ok()) return RequireRefusal(request.status());
  RequireSound(request->query_rows);
  MatchWithOtherTypes(request->query_rows);
}

void DecodeOneSample(absl::string_view bytes) {
  v1::SampleRequest message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
  const Limits limits;
  const absl::StatusOr<SampleRequest> request = DecodeSample(message, limits);
  if (!request.ok()) return RequireRefusal(request.status());
  RequireSound(request->query_rows);
  Require(request->query_rows.rows() <= limits.max_query_rows);
}

void DecodeOneSummarize(absl::string_view bytes) {
  v1::SummarizeRequest message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
  const absl::StatusOr<SummarizeRequest> request = DecodeSummarize(message, Limits());
  if (!request.ok()) return RequireRefusal(request.status());
  RequireSound(request->query_rows);
  Require(static_cast<int>(request->functionals.size()) == message.functionals_size());
}

void DecodeOneLogDensity(absl::string_view bytes) {
  v1::LogDensityRequest message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
  const absl::StatusOr<LogDensityRequest> request = DecodeLogDensity(message, Limits());
  if (!request.ok()) return RequireRefusal(request.status());
  RequireSound(request->query_rows);
  const int64_t values = static_cast<int64_t>(request->y.size());
  const int64_t unknown = request->query_rows.rows() - request->known.count();
  Require(request->vectors == values / std::max<int64_t>(unknown, 1));
}

// What the assembler accepts is a dataset that the store accepts, and that survives being stored.
template <typename Request>
void AssembleDataset(const std::vector<absl::string_view>& messages) {
  const Limits limits;
  DatasetAssembler assembler(limits);
  for (const absl::string_view bytes : messages) {
    Request message;
    if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
    const absl::Status added = assembler.Add(message);
    if (!added.ok()) return RequireRefusal(added);
  }
  const absl::StatusOr<Dataset> dataset = assembler.Finish();
  if (!dataset.ok()) return RequireRefusal(dataset.status());
  const absl::Status valid = ValidateDataset(*dataset, limits);
  if (!valid.ok()) return RequireRefusal(valid);
  const std::string encoded = EncodeDataset(*dataset);
  const absl::StatusOr<Dataset> decoded = DecodeDataset(encoded);
  Require(decoded.ok());
  Require(EncodeDataset(*decoded) == encoded);
}

// A dataset to which the table of a seed can be appended.
Dataset AppendableDataset() {
  Dataset dataset;
  dataset.features.columns = {{.name = "b", .numbers = {0, 1, 1}, .meaning = Meaning::kBoolean},
                              {.name = "c",
                               .type = ColumnType::kCategorical,
                               .categories = {"a", "3"},
                               .codes = {0, 1, kMissingCode}}};
  dataset.target = "x";
  dataset.y = {1, 2, 3};
  return dataset;
}

// Rows that match a dataset can be appended to it, unless a limit is exceeded.
void DecodeOneAppend(absl::string_view bytes) {
  v1::AppendRowsRequest message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
  const Limits limits;
  const absl::StatusOr<AppendRequest> request = DecodeAppend(message);
  if (!request.ok()) return RequireRefusal(request.status());
  const absl::StatusOr<Table> rows = DecodeTable(message.rows(), "rows", ChunkBounds(limits));
  if (!rows.ok()) return RequireRefusal(rows.status());
  RequireSound(*rows);
  Dataset dataset = AppendableDataset();
  const MissingTargets missing =
      request->drop_missing_targets ? MissingTargets::kDrop : MissingTargets::kReject;
  const absl::StatusOr<AppendedRows> matched = MatchAppendedRows(dataset, *rows, missing, limits);
  if (!matched.ok()) return RequireRefusal(matched.status());
  const int64_t first_row = static_cast<int64_t>(dataset.y.size());
  const absl::StatusOr<Dataset> appended = AppendRows(std::move(dataset), *matched, limits);
  if (!appended.ok()) return RequireRefusal(appended.status());
  Require(HasAppended(*appended, first_row, *matched));
  Require(DecodeDataset(EncodeDataset(*appended)).ok());
}

void Run(absl::string_view input) {
  if (input.empty()) return;
  const std::vector<absl::string_view> messages = SplitMessages(input.substr(1));
  const absl::string_view first = messages.empty() ? absl::string_view() : messages.front();
  switch (static_cast<uint8_t>(input[0]) % 7) {
    case 0:
      return DecodeOnePredict(first);
    case 1:
      return DecodeOneSample(first);
    case 2:
      return DecodeOneLogDensity(first);
    case 3:
      return AssembleDataset<v1::RegisterContextRequest>(messages);
    case 4:
      return AssembleDataset<v1::CreateContextRequest>({first});
    case 5:
      return DecodeOneAppend(first);
    default:
      return DecodeOneSummarize(first);
  }
}

}  // namespace
}  // namespace chorale

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  chorale::Run(absl::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
