#include "server/codec/meaning_codec.h"

namespace chorale {

v1::NumericValues::Meaning EncodeMeaning(Meaning meaning) {
  switch (meaning) {
    case Meaning::kNumber:
      return v1::NumericValues::MEANING_UNSPECIFIED;
    case Meaning::kBoolean:
      return v1::NumericValues::MEANING_BOOLEAN;
    case Meaning::kDate:
      return v1::NumericValues::MEANING_DATE;
    case Meaning::kDuration:
      return v1::NumericValues::MEANING_DURATION;
  }
  return v1::NumericValues::MEANING_UNSPECIFIED;
}

std::optional<Meaning> DecodeMeaning(v1::NumericValues::Meaning meaning) {
  for (const Meaning each :
       {Meaning::kNumber, Meaning::kBoolean, Meaning::kDate, Meaning::kDuration}) {
    if (EncodeMeaning(each) == meaning) return each;
  }
  return std::nullopt;
}

}  // namespace chorale
