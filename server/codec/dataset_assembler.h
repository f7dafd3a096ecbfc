// Assembles a dataset from the messages of one RegisterContext or CreateContext call.
#ifndef CHORALE_SERVER_CODEC_DATASET_ASSEMBLER_H_
#define CHORALE_SERVER_CODEC_DATASET_ASSEMBLER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "chorale/v1/chorale.pb.h"
#include "engine/api/request.h"
#include "engine/data/limits.h"
#include "engine/data/memory_set.h"
#include "engine/data/table.h"
#include "engine/data/text_columns.h"

namespace chorale {

// Not thread-safe. Not usable after an error.
class DatasetAssembler {
 public:
  // The limit of chunks: each chunk costs time, however small it is.
  static constexpr int64_t kMaxChunks = 65'536;

  explicit DatasetAssembler(const Limits& limits) : limits_(limits) {}

  // Adds the next message. InvalidArgument, with the field: a missing, repeated or malformed
  // spec; a chunk whose columns differ from the first chunk's; a missing cell in the target
  // column, unless the spec drops such rows; too many rows, categories, bytes or chunks.
  absl::Status Add(const v1::RegisterContextRequest& message);
  // Adds the only message of CreateContext, with the same errors.
  absl::Status Add(const v1::CreateContextRequest& message);

  // Returns the whole dataset after the last message, with the types of columns of strings inferred
  // and, if the spec requests it, without rows that have no target value. InvalidArgument if there
  // is no spec, no row or no feature column, if the spec's row_count differs from the number of
  // rows, if strings of the target column are not numbers, or if those of another column are too
  // many categories.
  absl::StatusOr<Dataset> Finish();
  // After Finish: the warnings about columns of strings, in the order of the columns.
  const std::vector<TextWarning>& text_warnings() const { return text_warnings_; }
  // After Finish: the number of dropped rows without a target value.
  int64_t dropped_rows() const { return dropped_rows_; }

  // From the spec; empty before it.
  const RegisterRequest& request() const { return request_; }
  int64_t rows() const { return rows_; }
  // The size of the names, cells and categories so far, which Limits::max_dataset_bytes limits.
  int64_t bytes() const { return bytes_; }
  // The memory that they use here: for short categories many times bytes().
  int64_t memory_bytes() const { return memory_bytes_; }

 private:
  // The codes of a column's categories over all chunks.
  using CategoryIndex = absl::flat_hash_map<std::string, int32_t>;

  absl::Status AddSpec(const v1::ContextSpec& spec);
  absl::Status AddRows(const v1::Table& rows);
  absl::Status CheckTarget(const Table& chunk) const;
  absl::Status CheckSameColumns(const Table& chunk) const;
  absl::Status CheckCategories(size_t index) const;
  absl::Status InferTypes();
  absl::Status CheckInferredTarget(size_t index) const;
  absl::Status DropMissingTargets(size_t index);
  // `overhead`: memory beyond `bytes`.
  void CountBytes(size_t bytes, size_t overhead);
  absl::Status Append(const Column& chunk, size_t index);

  const Limits limits_;
  bool has_spec_ = false;
  RegisterRequest request_;
  std::string target_;
  Seasons seasons_ = Seasons::kSought;
  MemorySet memory_;
  bool drops_missing_targets_ = false;
  int64_t announced_rows_ = 0;  // 0: not announced
  int64_t chunks_ = 0;
  int64_t rows_ = 0;
  int64_t bytes_ = 0;
  int64_t memory_bytes_ = 0;
  Table table_;                                // includes the target column
  std::vector<CategoryIndex> category_index_;  // [columns]
  std::vector<TextWarning> text_warnings_;
  int64_t dropped_rows_ = 0;
};

}  // namespace chorale

#endif  // CHORALE_SERVER_CODEC_DATASET_ASSEMBLER_H_
