// Sine and cosine of angles in turns, with the same bits on every machine. The results of C
// libraries differ in the last bit.
#ifndef CHORALE_ENGINE_DATA_TURNS_H_
#define CHORALE_ENGINE_DATA_TURNS_H_

namespace chorale {

// The nearest integer; of two the even one. A call of the C library would take as long as the rest
// of the computation. REQUIRES: |x| < 2^50.
inline double Nearest(double x) {
  constexpr double kNoFraction = 6755399441055744.0;  // 1.5 * 2^52
  return (x + kNoFraction) - kNoFraction;
}

struct SineCosine {
  double sine = 0;
  double cosine = 1;
};

// Sine and cosine of 2 pi `turns`, within 3e-16. Reduces the argument exactly to an eighth of a
// turn, then sums Taylor's series, of which the first omitted term is below 3e-18. REQUIRES:
// |turns| < 2^50.
inline SineCosine OfTurns(double turns) {
  const double part = turns - Nearest(turns);                            // [-1/2, 1/2], exact
  const double quarters = Nearest(4 * part);                             // -2 to 2
  const double angle = (part - quarters / 4) * 6.283185307179586476925;  // [-pi/4, pi/4]
  const double square = angle * angle;
  // (-1)^k / (2k+1)! and (-1)^k / (2k)!, from k = 8 down to 1.
  constexpr double kSine[] = {
      1 / 355687428096000.0, -1 / 1307674368000.0, 1 / 6227020800.0, -1 / 39916800.0,
      1 / 362880.0,          -1 / 5040.0,          1 / 120.0,        -1 / 6.0};
  constexpr double kCosine[] = {
      1 / 20922789888000.0, -1 / 87178291200.0, 1 / 479001600.0, -1 / 3628800.0,
      1 / 40320.0,          -1 / 720.0,         1 / 24.0,        -1 / 2.0};
  double sine = 0;
  for (const double factor : kSine) sine = (sine + factor) * square;
  sine = angle + angle * sine;
  double cosine = 0;
  for (const double factor : kCosine) cosine = (cosine + factor) * square;
  cosine = 1 + cosine;
  // Selections instead of branches, so that the compiler vectorises loops.
  const bool swapped = quarters == 1 || quarters == -1;
  const double first = swapped ? cosine : sine;
  const double second = swapped ? sine : cosine;
  return {quarters < 0 || quarters == 2 ? -first : first,
          quarters > 0 || quarters == -2 ? -second : second};
}

// Sine and cosine of the sum of both angles.
inline SineCosine SumOf(const SineCosine& a, const SineCosine& b) {
  return {a.sine * b.cosine + a.cosine * b.sine, a.cosine * b.cosine - a.sine * b.sine};
}

}  // namespace chorale

#endif  // CHORALE_ENGINE_DATA_TURNS_H_
