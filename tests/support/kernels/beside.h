#pragma once
constexpr int kBeside = 20;
