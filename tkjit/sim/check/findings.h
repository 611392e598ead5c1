// Writes a checked run's findings, each as one line of JSON, for the process that requested the check (tkjit/check/).
#pragma once

#include "../detail/vector_types.h"

#include <stddef.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace tkjit::sim::check {

inline int findings_file = 2;

/// Builds a JSON object member by member.
class Json {
  public:
    Json& text(const char* name, const std::string& value) {
        key(name) += '"';
        for (const char c : value) {
            if (c == '"' || c == '\\') text_ += '\\';
            if (c == '\n') text_ += "\\n";
            else if (static_cast<unsigned char>(c) >= ' ') text_ += c;
        }
        text_ += '"';
        return *this;
    }
    Json& number(const char* name, long long value) {
        key(name) += std::to_string(value);
        return *this;
    }
    Json& numbers(const char* name, const std::vector<unsigned long long>& values) {
        key(name) += '[';
        for (size_t i = 0; i < values.size(); i++) text_ += (i ? "," : "") + std::to_string(values[i]);
        text_ += ']';
        return *this;
    }
    Json& index(const char* name, uint3 value) { return numbers(name, {value.x, value.y, value.z}); }
    Json& object(const char* name, const Json& value) {
        key(name) += value.str();
        return *this;
    }
    std::string str() const { return "{" + text_ + "}"; }

  private:
    std::string& key(const char* name) {
        if (!text_.empty()) text_ += ',';
        text_ += '"';
        text_ += name;
        return text_ += "\":";
    }
    std::string text_;
};

/// Writes a whole line in one piece.
inline void write_line(const Json& json) {
    const std::string line = json.str() + "\n";
    [[maybe_unused]] const ssize_t written = ::write(findings_file, line.data(), line.size());
}

}  // namespace tkjit::sim::check
