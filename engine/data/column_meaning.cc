#include "engine/data/column_meaning.h"

namespace chorale {

const char* MeaningName(Meaning meaning) {
  switch (meaning) {
    case Meaning::kNumber:
      return "number";
    case Meaning::kBoolean:
      return "boolean";
    case Meaning::kDate:
      return "date";
    case Meaning::kDuration:
      return "duration";
  }
  return "number";
}

bool MeaningFromName(absl::string_view name, Meaning* meaning) {
  for (const Meaning each :
       {Meaning::kNumber, Meaning::kBoolean, Meaning::kDate, Meaning::kDuration}) {
    if (name != MeaningName(each)) continue;
    *meaning = each;
    return true;
  }
  return false;
}

}  // namespace chorale
