#include "kernels/cuda/cell_summary.h"

#include "absl/strings/str_cat.h"
#include "kernels/field_checks.h"

namespace chorale::kernels::cuda {

absl::Status ValidateSummariseColumns(const SummariseColumnsParams& p) {
  if (absl::Status s = ValidateCellTable(p.table); !s.ok()) return s;
  if (absl::Status s = ValidateCellShape(p.shape); !s.ok()) return s;
  if (p.points_per_column < 1 || p.points_per_column > kTileTokens) {
    return absl::InvalidArgumentError(
        absl::StrCat("points_per_column is ", p.points_per_column, ", must be 1 to ", kTileTokens));
  }
  return RequireNotNull({{"y", p.table.y},
                         {"cell", p.cell},
                         {"points", p.points},
                         {"summarise", p.summarise},
                         {"summaries", p.summaries}});
}

}  // namespace chorale::kernels::cuda
