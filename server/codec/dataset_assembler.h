// Puts a dataset together from the messages of one RegisterContext call.
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

// Not thread-safe. After an error the assembler is of no further use.
class DatasetAssembler {
 public:
  // A dataset in more pieces than this is refused: each piece costs time, however small it is.
  static constexpr int64_t kMaxChunks = 65'536;

  explicit DatasetAssembler(const Limits& limits) : limits_(limits) {}

  // The next message. InvalidArgument names the field: a header that is missing, repeated or
  // malformed; a chunk whose columns differ from the first one's; a missing cell in the target
  // column; too many rows, categories, bytes or chunks.
  absl::Status Add(const v1::RegisterContextRequest& message);

  // The whole dataset, after the last message. InvalidArgument when there was no header, no rows,
  // no feature column, or not the number of rows that the header announced.
  absl::StatusOr<Dataset> Finish();

  // From the header; empty before.
  const std::string& context_id() const { return context_id_; }
  const std::string& model_id() const { return model_id_; }  // empty: the default model
  int64_t rows() const { return rows_; }
  // Bytes of the names, cells and categories so far: what max_dataset_bytes bounds.
  int64_t bytes() const { return bytes_; }
  // Memory that they take in here, which for short categories is many times that.
  int64_t memory_bytes() const { return memory_bytes_; }

 private:
  // A column's categories so far, over all chunks.
  using CategoryIndex = absl::flat_hash_map<std::string, int32_t>;

  absl::Status AddHeader(const v1::RegisterContextHeader& header);
  absl::Status AddRows(const v1::Table& rows);
  absl::Status CheckTarget(const Table& chunk) const;
  absl::Status CheckSameColumns(const Table& chunk) const;
  // `overhead`: memory beyond the bytes themselves.
  void CountBytes(size_t bytes, size_t overhead);
  absl::Status Append(const Column& chunk, size_t index);

  const Limits limits_;
  bool has_header_ = false;
  std::string context_id_;
  std::string model_id_;
  std::string target_;
  int64_t announced_rows_ = 0;  // 0: not said
  int64_t chunks_ = 0;
  int64_t rows_ = 0;
  int64_t bytes_ = 0;
  int64_t memory_bytes_ = 0;
  Table table_;                                // with the target column
  std::vector<CategoryIndex> category_index_;  // [columns]
};

}  // namespace chorale

#endif  // CHORALE_SERVER_CODEC_DATASET_ASSEMBLER_H_
