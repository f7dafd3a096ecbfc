// Assembles a dataset from the messages of one RegisterContext call.
#ifndef CHORALE_SERVER_CODEC_DATASET_ASSEMBLER_H_
#define CHORALE_SERVER_CODEC_DATASET_ASSEMBLER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "chorale/v1/chorale.pb.h"
#include "engine/data/limits.h"
#include "engine/data/table.h"

namespace chorale {

// Not thread-safe. Not usable after an error.
class DatasetAssembler {
 public:
  // The limit of chunks: each chunk costs time, however small it is.
  static constexpr int64_t kMaxChunks = 65'536;

  explicit DatasetAssembler(const Limits& limits) : limits_(limits) {}

  // Adds the next message. InvalidArgument, with the field: a missing, repeated or malformed
  // header; a chunk whose columns differ from the first chunk's; a missing cell in the target
  // column; too many rows, categories, bytes or chunks.
  absl::Status Add(const v1::RegisterContextRequest& message);

  // Returns the whole dataset after the last message. InvalidArgument if there is no header, no row
  // or no feature column, or if the header's row_count differs from the number of rows.
  absl::StatusOr<Dataset> Finish();

  // From the header; empty before it.
  const std::string& context_id() const { return context_id_; }
  const std::string& model_id() const { return model_id_; }  // empty: the default model
  int64_t rows() const { return rows_; }
  // The size of the names, cells and categories so far, which Limits::max_dataset_bytes limits.
  int64_t bytes() const { return bytes_; }
  // The memory that they use here: for short categories many times bytes().
  int64_t memory_bytes() const { return memory_bytes_; }

 private:
  // The codes of a column's categories over all chunks.
  using CategoryIndex = absl::flat_hash_map<std::string, int32_t>;

  absl::Status AddHeader(const v1::RegisterContextHeader& header);
  absl::Status AddRows(const v1::Table& rows);
  absl::Status CheckTarget(const Table& chunk) const;
  absl::Status CheckSameColumns(const Table& chunk) const;
  // `overhead`: memory beyond `bytes`.
  void CountBytes(size_t bytes, size_t overhead);
  absl::Status Append(const Column& chunk, size_t index);

  const Limits limits_;
  bool has_header_ = false;
  std::string context_id_;
  std::string model_id_;
  std::string target_;
  Seasons seasons_ = Seasons::kSought;
  int64_t announced_rows_ = 0;  // 0: not announced
  int64_t chunks_ = 0;
  int64_t rows_ = 0;
  int64_t bytes_ = 0;
  int64_t memory_bytes_ = 0;
  Table table_;                                // includes the target column
  std::vector<CategoryIndex> category_index_;  // [columns]
};

}  // namespace chorale

#endif  // CHORALE_SERVER_CODEC_DATASET_ASSEMBLER_H_
