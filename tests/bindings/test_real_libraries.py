"""Libraries that were not written for tkjit, used as in their documentation. They come from system packages."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tkjit

pytestmark = [pytest.mark.compiles, pytest.mark.slow]


def needs(header: str, package: str) -> None:
    if not Path("/usr/include", header).exists():
        pytest.skip(f"no {header} in /usr/include; apt-get install {package}")


def test_pugixml():
    needs("pugixml.hpp", "libpugixml-dev")
    pugi = tkjit.bind("pugixml.hpp", namespaces="pugi", libraries=["pugixml"])
    document = pugi.xml_document()
    assert document.load_string("<a><b x='3'>hello</b><b x='4'/></a>")
    first = document.child("a").child("b")
    assert (first.attribute("x").as_int(), first.text().get()) == (3, "hello")
    assert [child.attribute("x").as_double() for child in document.child("a").children()] == [3, 4]
    added = document.child("a").append_child("c")
    added.append_attribute("y").set_value(2.5)
    assert added.attribute("y").as_float() == 2.5


def test_rapidjson():
    needs("rapidjson/document.h", "rapidjson-dev")
    rapidjson = tkjit.bind("rapidjson/document.h", namespaces="rapidjson")
    document = rapidjson.Document()
    document.Parse('{"a": [1, 2, 3], "b": "text"}')
    assert not document.HasParseError()
    assert document["b"].GetString() == "text"
    assert (document["a"].Size(), document["a"][1].GetInt()) == (3, 2)


def test_tomlplusplus():
    needs("toml++/toml.h", "libtomlplusplus-dev")
    toml = tkjit.bind("toml++/toml.h", namespaces="toml")
    table = toml.parse("[a]\nx = 3\ny = [1, 2, 3]\nname = 'n'")
    assert table["a"]["x"].value_or(0) == 3 and table["a"]["name"].value_or("") == "n"
    assert table["a"]["y"].as_array().size() == 3


def test_robin_map():
    needs("tsl/robin_map.h", "robin-map-dev")
    tsl = tkjit.bind("tsl/robin_map.h", namespaces="tsl")
    numbers = tsl.robin_map(str, int)()
    numbers["a"] = 3
    numbers["b"] = 4
    assert numbers["a"] == 3 and numbers.contains("b") and numbers.size() == 2
    assert sorted(pair.first for pair in numbers) == ["a", "b"]
    numbers.erase("a")
    assert numbers.size() == 1


def test_yaml_cpp():
    needs("yaml-cpp/yaml.h", "libyaml-cpp-dev")
    yaml = tkjit.bind("yaml-cpp/yaml.h", namespaces="YAML", libraries=["yaml-cpp"])
    node = yaml.Load("a: 3\nb: [1, 2, 3]")
    assert node.IsMap() and node["b"].size() == 3 and node["a"].Scalar() == "3"


def test_armadillo():
    needs("armadillo", "libarmadillo-dev")
    arma = tkjit.bind("armadillo", namespaces="arma", libraries=["armadillo"])
    a = arma.Mat(float)(3, 3)
    a.eye()
    a[0, 1] = 2.0
    product = arma.Mat(float)(a * a)  # the product alone is an expression, as in C++
    assert (a[0, 1], product[0, 1], arma.accu(a * a), arma.trace(a)) == (2, 4, 7, 3)
    assert abs(arma.det(a) - 1) < 1e-9


def test_eigen_with_two_indices():
    needs("eigen3", "libeigen3-dev")
    eigen = tkjit.bind("Eigen/Dense", namespaces="Eigen", include_dirs=["/usr/include/eigen3"])
    matrix = eigen.MatrixXd(2, 2)
    for row, column in np.ndindex(2, 2):
        matrix[row, column] = 10 * row + column
    assert matrix[1, 0] == matrix(1, 0) == 10


def test_glm_keeps_floats():
    needs("glm/glm.hpp", "libglm-dev")
    glm = tkjit.bind("glm/glm.hpp", "glm/gtc/matrix_transform.hpp", namespaces="glm")
    axis = glm.vec3(np.float32(0), np.float32(0), np.float32(1))
    turned = glm.rotate(glm.mat4(np.float32(1)), glm.radians(np.float32(90)), axis)
    assert abs(turned[0][1] - 1) < 1e-6
