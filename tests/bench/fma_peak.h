// What one core can do at most: fused multiply-adds on registers alone.
#ifndef CHORALE_TESTS_BENCH_FMA_PEAK_H_
#define CHORALE_TESTS_BENCH_FMA_PEAK_H_

namespace chorale::kernels {

// Floating-point operations per second (two per multiply-add and lane) of one core with the widest
// vectors that the kernels use; the best of several short runs, measured once per process.
double MeasuredFmaPeak();

}  // namespace chorale::kernels

#endif  // CHORALE_TESTS_BENCH_FMA_PEAK_H_
