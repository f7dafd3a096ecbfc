// The interface of cuBLASLt: descriptors, the choice of algorithms, launches.
#include <cublasLt.h>
#include <dlfcn.h>

#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/cuda/gemm/gemm_library.h"

namespace chorale::kernels::cuda {
namespace {

constexpr ErrorCode kUnknownError = 999;  // cudaErrorUnknown
constexpr int kMostAlgorithms = 16;       // to ask for

static_assert(sizeof(cublasLtMatmulAlgo_t) == sizeof(GemmAlgorithm));

// The functions that are used, found in the opened library.
struct Functions {
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtDestroy) destroy;
  decltype(&cublasLtMatmul) matmul;
  decltype(&cublasLtMatmulAlgoGetHeuristic) get_heuristic;
  decltype(&cublasLtMatmulAlgoConfigGetAttribute) get_config;
  decltype(&cublasLtMatmulDescCreate) create_gemm;
  decltype(&cublasLtMatmulDescSetAttribute) set_gemm;
  decltype(&cublasLtMatmulDescDestroy) destroy_gemm;
  decltype(&cublasLtMatrixLayoutCreate) create_matrix;
  decltype(&cublasLtMatrixLayoutDestroy) destroy_matrix;
  decltype(&cublasLtMatmulPreferenceCreate) create_preference;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference;
  decltype(&cublasLtMatmulPreferenceDestroy) destroy_preference;
};

template <typename Function>
bool Find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

absl::StatusOr<Functions> FindFunctions(void* library) {
  Functions f = {};
  if (Find(library, "cublasLtCreate", &f.create) && Find(library, "cublasLtDestroy", &f.destroy) &&
      Find(library, "cublasLtMatmul", &f.matmul) &&
      Find(library, "cublasLtMatmulAlgoGetHeuristic", &f.get_heuristic) &&
      Find(library, "cublasLtMatmulAlgoConfigGetAttribute", &f.get_config) &&
      Find(library, "cublasLtMatmulDescCreate", &f.create_gemm) &&
      Find(library, "cublasLtMatmulDescSetAttribute", &f.set_gemm) &&
      Find(library, "cublasLtMatmulDescDestroy", &f.destroy_gemm) &&
      Find(library, "cublasLtMatrixLayoutCreate", &f.create_matrix) &&
      Find(library, "cublasLtMatrixLayoutDestroy", &f.destroy_matrix) &&
      Find(library, "cublasLtMatmulPreferenceCreate", &f.create_preference) &&
      Find(library, "cublasLtMatmulPreferenceSetAttribute", &f.set_preference) &&
      Find(library, "cublasLtMatmulPreferenceDestroy", &f.destroy_preference)) {
    return f;
  }
  // NOLINTNEXTLINE(concurrency-mt-unsafe): each thread has its own.
  return absl::FailedPreconditionError(
      absl::StrCat("libcublasLt lacks a required function: ", dlerror()));
}

// The descriptors of a GEMM of so many rows. cuBLASLt stores matrices by columns, so it is told
// to compute y^T [outputs, rows] = W^T-transposed times x^T: each of ours by rows is theirs by
// columns.
class Descriptors {
 public:
  Descriptors(const Functions& functions, const GemmShape& shape, int64_t rows) : f_(functions) {
    const cudaDataType_t result = shape.result == GemmResult::kBf16 ? CUDA_R_16BF : CUDA_R_32F;
    const cublasOperation_t transposed = CUBLAS_OP_T;
    Keep(f_.create_gemm(&product_, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    Keep(f_.create_matrix(&weight_, CUDA_R_16BF, shape.inputs, shape.outputs, shape.inputs));
    Keep(f_.create_matrix(&x_, CUDA_R_16BF, shape.inputs, rows, shape.inputs));
    Keep(f_.create_matrix(&y_, result, shape.outputs, rows, shape.outputs));
    if (!ok()) return;
    Keep(f_.set_gemm(product_, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof(transposed)));
  }
  ~Descriptors() {
    if (product_ != nullptr) f_.destroy_gemm(product_);
    for (cublasLtMatrixLayout_t matrix : {weight_, x_, y_}) {
      if (matrix != nullptr) f_.destroy_matrix(matrix);
    }
  }
  Descriptors(const Descriptors&) = delete;
  Descriptors& operator=(const Descriptors&) = delete;

  bool ok() const { return ok_; }
  cublasLtMatmulDesc_t product() const { return product_; }
  cublasLtMatrixLayout_t weight() const { return weight_; }
  cublasLtMatrixLayout_t x() const { return x_; }
  cublasLtMatrixLayout_t y() const { return y_; }

 private:
  void Keep(cublasStatus_t status) { ok_ = ok_ && status == CUBLAS_STATUS_SUCCESS; }

  const Functions& f_;
  bool ok_ = true;
  cublasLtMatmulDesc_t product_ = nullptr;
  cublasLtMatrixLayout_t weight_ = nullptr;
  cublasLtMatrixLayout_t x_ = nullptr;
  cublasLtMatrixLayout_t y_ = nullptr;
};

class CublasLt : public GemmLibrary {
 public:
  CublasLt(const Functions& functions, int64_t version, cublasLtHandle_t handle)
      : f_(functions), version_(version), handle_(handle) {}
  ~CublasLt() override { f_.destroy(handle_); }

  std::string description() const override {
    return absl::StrCat("cuBLASLt ", VersionText(version_));
  }

  int64_t most_rows() const override { return 8'192; }

  std::vector<GemmAlgorithm> Algorithms(const GemmShape& shape, int64_t rows) override {
    std::vector<GemmAlgorithm> found;
    const Descriptors d(f_, shape, rows);
    cublasLtMatmulPreference_t preference = nullptr;
    if (!d.ok() || f_.create_preference(&preference) != CUBLAS_STATUS_SUCCESS) return found;
    const uint64_t no_workspace = 0;
    const uint32_t no_reduction = CUBLASLT_REDUCTION_SCHEME_NONE;
    cublasLtMatmulHeuristicResult_t results[kMostAlgorithms] = {};
    int count = 0;
    if (f_.set_preference(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &no_workspace,
                          sizeof(no_workspace)) != CUBLAS_STATUS_SUCCESS ||
        f_.set_preference(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &no_reduction,
                          sizeof(no_reduction)) != CUBLAS_STATUS_SUCCESS ||
        f_.get_heuristic(handle_, d.product(), d.weight(), d.x(), d.y(), d.y(), preference,
                         kMostAlgorithms, results, &count) != CUBLAS_STATUS_SUCCESS) {
      count = 0;
    }
    f_.destroy_preference(preference);
    for (int i = 0; i < count; ++i) {
      if (results[i].state != CUBLAS_STATUS_SUCCESS || results[i].workspaceSize > 0) continue;
      if (Splits(results[i].algo)) continue;
      GemmAlgorithm algorithm;
      std::memcpy(algorithm.data.data(), &results[i].algo, sizeof(algorithm.data));
      found.push_back(algorithm);
    }
    return found;
  }

  ErrorCode Multiply(const GemmShape& shape, const GemmAlgorithm& algorithm,
                     const GemmOperands& operands, Stream stream) override {
    const Descriptors d(f_, shape, operands.rows);
    if (!d.ok()) return kUnknownError;
    cublasLtMatmulAlgo_t chosen;
    std::memcpy(&chosen, algorithm.data.data(), sizeof(chosen));
    const float one = 1;
    const float added = shape.result == GemmResult::kAdd ? 1 : 0;
    const cublasStatus_t status =
        f_.matmul(handle_, d.product(), &one, operands.weight, d.weight(), operands.x, d.x(),
                  &added, operands.y, d.y(), operands.y, d.y(), &chosen, nullptr, 0, stream);
    switch (status) {
      case CUBLAS_STATUS_SUCCESS:
        return 0;
      case CUBLAS_STATUS_NOT_SUPPORTED:
      case CUBLAS_STATUS_INVALID_VALUE:
      case CUBLAS_STATUS_ARCH_MISMATCH:
        return kGemmNotSupported;
      default:
        return kUnknownError;
    }
  }

 private:
  // Whether several blocks sum parts of one result.
  bool Splits(const cublasLtMatmulAlgo_t& algorithm) const {
    const auto get = [&](cublasLtMatmulAlgoConfigAttributes_t attribute, int32_t otherwise) {
      int32_t value = otherwise;
      size_t written = 0;
      f_.get_config(&algorithm, attribute, &value, sizeof(value), &written);
      return value;
    };
    return get(CUBLASLT_ALGO_CONFIG_SPLITK_NUM, 1) > 1 ||
           get(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, 0) != CUBLASLT_REDUCTION_SCHEME_NONE;
  }

  const Functions f_;
  const int64_t version_;
  const cublasLtHandle_t handle_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<GemmLibrary>> GemmLibrary::Open(const std::string& path) {
  ASSIGN_OR_RETURN(const OpenedLibrary opened, OpenCublasLt(path));
  ASSIGN_OR_RETURN(const Functions functions, FindFunctions(opened.handle));
  cublasLtHandle_t handle = nullptr;
  if (const cublasStatus_t status = functions.create(&handle); status != CUBLAS_STATUS_SUCCESS) {
    return absl::UnavailableError(absl::StrCat("cuBLASLt ", VersionText(opened.version),
                                               " cannot be initialised: error ", status));
  }
  return std::make_unique<CublasLt>(functions, opened.version, handle);
}

}  // namespace chorale::kernels::cuda
