// Tells a profiler that looks on which part of a program is worth its time.
#ifndef CHORALE_TESTS_BENCH_PROFILER_RANGE_H_
#define CHORALE_TESTS_BENCH_PROFILER_RANGE_H_

namespace chorale {

void BeginProfile();
void EndProfile();

}  // namespace chorale

#endif  // CHORALE_TESTS_BENCH_PROFILER_RANGE_H_
