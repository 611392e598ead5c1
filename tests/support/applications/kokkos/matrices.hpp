// Generates matrices for the applications, because Debian's packages lack the generator of Kokkos Kernels' examples.
#include <cstdint>
#include <string>
#include <vector>

namespace matrices {

/// Makes a matrix in compressed rows from its rows of (column, value).
template <class Matrix>
Matrix from_rows(const std::string& name, int columns, const std::vector<std::vector<std::pair<int, double>>>& rows) {
    const int count = static_cast<int>(rows.size());
    typename Matrix::row_map_type::non_const_type row_map("row map", rows.size() + 1);
    std::vector<int> indices;
    std::vector<double> numbers;
    for (std::size_t row = 0; row < rows.size(); ++row) {
        for (const auto& entry : rows[row]) indices.push_back(entry.first), numbers.push_back(entry.second);
        row_map(row + 1) = static_cast<int>(indices.size());
    }
    typename Matrix::index_type::non_const_type entries("entries", indices.size());
    typename Matrix::values_type::non_const_type values("values", numbers.size());
    for (std::size_t i = 0; i < indices.size(); ++i) entries(i) = indices[i], values(i) = numbers[i];
    return Matrix(name, count, columns, static_cast<int>(indices.size()), values, row_map, entries);
}

/// The Laplacian of a line: -1, 2, -1.
template <class Matrix>
Matrix line(int n) {
    std::vector<std::vector<std::pair<int, double>>> rows(n);
    for (int i = 0; i < n; ++i) {
        if (i > 0) rows[i].emplace_back(i - 1, -1.0);
        rows[i].emplace_back(i, 2.0);
        if (i + 1 < n) rows[i].emplace_back(i + 1, -1.0);
    }
    return from_rows<Matrix>("line", n, rows);
}

/// The five-point Laplacian of a grid: -1, -1, 4, -1, -1.
template <class Matrix>
Matrix grid(int width, int height) {
    std::vector<std::vector<std::pair<int, double>>> rows(width * height);
    for (int y = 0; y < height; ++y)
        for (int x = 0; x < width; ++x) {
            auto& row = rows[y * width + x];
            if (y > 0) row.emplace_back((y - 1) * width + x, -1.0);
            if (x > 0) row.emplace_back(y * width + x - 1, -1.0);
            row.emplace_back(y * width + x, 4.0);
            if (x + 1 < width) row.emplace_back(y * width + x + 1, -1.0);
            if (y + 1 < height) row.emplace_back((y + 1) * width + x, -1.0);
        }
    return from_rows<Matrix>("grid", width * height, rows);
}

/// The lower triangle of a matrix.
template <class Matrix>
Matrix lower(const Matrix& matrix) {
    std::vector<std::vector<std::pair<int, double>>> rows(matrix.numRows());
    for (int row = 0; row < matrix.numRows(); ++row)
        for (int at = matrix.graph.row_map(row); at < matrix.graph.row_map(row + 1); ++at)
            if (matrix.graph.entries(at) <= row) rows[row].emplace_back(matrix.graph.entries(at), matrix.values(at));
    return from_rows<Matrix>("lower", matrix.numRows(), rows);
}

/// The adjacency matrix of a grid in which each point has eight neighbours.
template <class Matrix>
Matrix neighbours(int width, int height) {
    std::vector<std::vector<std::pair<int, double>>> rows(width * height);
    for (int y = 0; y < height; ++y)
        for (int x = 0; x < width; ++x)
            for (int j = y - 1; j <= y + 1; ++j)
                for (int i = x - 1; i <= x + 1; ++i)
                    if ((i != x || j != y) && i >= 0 && j >= 0 && i < width && j < height)
                        rows[y * width + x].emplace_back(j * width + i, 1.0);
    return from_rows<Matrix>("neighbours", width * height, rows);
}

}  // namespace matrices
