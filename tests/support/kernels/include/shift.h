#pragma once
constexpr int kShift = 100;
