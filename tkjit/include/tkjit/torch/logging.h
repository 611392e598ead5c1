// torch's macros LOG and CHECK, unless a source has defined its own. LOG(FATAL) and a failed CHECK throw.
#pragma once

#include "check.h"

#include <iostream>
#include <sstream>

inline int FLAGS_caffe2_log_level = 1;  // warnings and above

namespace c10 {
inline namespace tkjit_stand_in {

enum LogSeverity { LOG_INFO, LOG_WARNING, LOG_ERROR, LOG_FATAL };
inline void ShowLogInfoToStderr() { FLAGS_caffe2_log_level = LOG_INFO; }

/// A message, shown at the end of its statement.
class LogMessage {
public:
    LogMessage(const char* file, int line, LogSeverity severity) : severity_(severity) {
        text_ << "[" << "IWEF"[severity] << " " << file << ":" << line << "] ";
    }
    LogMessage(const LogMessage&) = delete;
    ~LogMessage() noexcept(false) {
        if (severity_ == LOG_FATAL) throw Error(text_.str());
        if (severity_ >= FLAGS_caffe2_log_level) std::cerr << text_.str() << "\n";
    }
    std::ostream& stream() { return text_; }

private:
    LogSeverity severity_;
    std::ostringstream text_;
};
/// Turns a stream into a void expression, so that it can be a branch of a conditional.
struct NoValue {
    void operator&(std::ostream&) const {}
};

}  // inline namespace tkjit_stand_in
}  // namespace c10

#define TKJIT_TORCH_LOG(severity) c10::LogMessage(__FILE__, __LINE__, c10::LOG_##severity).stream()
#define TKJIT_TORCH_LOG_IF(severity, condition) (!(condition)) ? void(0) : c10::NoValue() & TKJIT_TORCH_LOG(severity)
#ifndef LOG
#define LOG(severity) TKJIT_TORCH_LOG(severity)
#define LOG_IF(severity, condition) TKJIT_TORCH_LOG_IF(severity, condition)
#define VLOG(level) TKJIT_TORCH_LOG_IF(INFO, (level) <= 0)
#endif
#ifndef CHECK
#define CHECK(condition) TKJIT_TORCH_LOG_IF(FATAL, !(condition)) << "Check failed: " #condition " "
#define CHECK_EQ(a, b) CHECK((a) == (b))
#define CHECK_NE(a, b) CHECK((a) != (b))
#define CHECK_LT(a, b) CHECK((a) < (b))
#define CHECK_LE(a, b) CHECK((a) <= (b))
#define CHECK_GT(a, b) CHECK((a) > (b))
#define CHECK_GE(a, b) CHECK((a) >= (b))
#define DCHECK(condition) CHECK(condition)
#endif
