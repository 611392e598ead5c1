use std::sync::Arc;
use std::thread;

use zoo::{DType, Device, ErrorKind, Seed, Tensor};

fn tensor(elements: &[f32], sizes: &[i64]) -> Tensor<'static> {
    Tensor::from_slice(elements, sizes).unwrap()
}

#[test]
fn functions_and_given_memory() {
    zoo::check_interface().unwrap();
    let (a, b) = (tensor(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]), tensor(&[1.0, 0.0, 0.0, 1.0, 1.0, 1.0], &[3, 2]));
    let c = zoo::gemm(&a, &b, None).unwrap();
    assert_eq!(c.as_slice::<f32>().unwrap(), [4.0, 5.0, 10.0, 11.0]);
    assert_eq!((c.sizes(), c.dtype(), c.device()), (&[2i64, 2][..], DType::Float32, Device::Cpu));
    let mut memory = [0f32; 4];
    {
        let mut view = Tensor::view(&mut memory, &[2, 2]).unwrap();
        zoo::gemm_into(&a, &b, &mut view, None).unwrap();
    }
    assert_eq!(memory, [4.0, 5.0, 10.0, 11.0]);
    let mut y = tensor(&[1.0, 1.0], &[2]);
    zoo::axpy(&tensor(&[1.0, 2.0], &[2]), &mut y, 3.0, None).unwrap();
    assert_eq!(y.as_slice::<f32>().unwrap(), [4.0, 7.0]);
}

#[test]
fn refusals() {
    let a = tensor(&[0.0; 6], &[2, 3]);
    let error = zoo::gemm(&a, &a, None).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Shape);
    assert_eq!(error.to_string(), "gemm: b is (2, 3) float32 on cpu; expected (K=3, N) of a's type float32; dim 0 is 2, but K=3 from a");
    assert_eq!(Tensor::from_slice(&[1f32], &[2]).unwrap_err().kind, ErrorKind::Shape);
    assert_eq!(Tensor::zeros(DType::Float32, &[-1], Device::Cpu).unwrap_err().kind, ErrorKind::Argument);
    assert_eq!(Tensor::zeros(DType::Float64, &[1 << 50], Device::Cpu).unwrap_err().kind, ErrorKind::Memory);
    assert_eq!(a.as_slice::<f64>().unwrap_err().to_string(), "the tensor is Float32; expected Float64");
    assert!(a.to(Device::Cuda(0)).is_err());
    let error = Tensor::view(&mut [] as &mut [f32], &[2147483647, 2147483647, 1, 1]).unwrap_err();
    assert!(error.to_string().starts_with("tkjit_tensor_view: data is null") || error.kind == ErrorKind::Memory || error.kind == ErrorKind::Shape);
    assert!(Tensor::view(&mut [] as &mut [f32], &[65536, 65536, 65536, 65536]).is_err());
}

#[test]
fn values_of_every_kind() {
    let (x, mut acc) = (tensor(&[1.0; 6], &[2, 3]), tensor(&[0.0; 2], &[2]));
    let bias = tensor(&[0.0, 1.0, 2.0], &[3]);
    let y = zoo::mix(&x, &mut acc, Some(&bias), 2.0, 1, Some(10), true, 1, 1, None).unwrap();
    assert_eq!(y.as_slice::<f32>().unwrap(), [13.0, 14.0, 15.0]);
    let y = zoo::mix(&x, &mut acc, None, 2.0, 1, None, false, 1, 2, None).unwrap();
    assert_eq!(y.as_slice::<f32>().unwrap(), [2.0, 2.0, 2.0]);
    assert_eq!(acc.as_slice::<f32>().unwrap(), [2.0, 2.0]);
    let picked = zoo::pick(&bias, &[2, 1], Some(&[0.5]), None).unwrap();
    assert_eq!(picked.as_slice::<f32>().unwrap()[..2], [2.5, 1.0]);
    let picked = zoo::pick(&bias, &[2, 1], Some(&[]), None).unwrap();
    assert_eq!(picked.as_slice::<f32>().unwrap()[..2], [2.0, 1.0]);
    let picked = zoo::pick(&bias, &[2, 1], None, None).unwrap();
    assert_eq!(picked.as_slice::<f32>().unwrap()[..2], [2.75, 1.0]);
    let sum = zoo::add(&[Some(&bias), None, Some(&bias)], None).unwrap();
    assert_eq!(sum.as_slice::<f32>().unwrap(), [0.0, 2.0, 4.0]);
    let number = zoo::describe(&bias, "four", DType::Float32, Device::Cuda(3), None).unwrap();
    assert_eq!(number, 4000 + 10 * DType::Float32 as i64 + 1);
    assert!(zoo::noise(&bias, Seed { seed: 7, offset: 3 }, None).is_err());
    let ones = zoo::ones(3, DType::Int32, Device::Cpu, None).unwrap();
    assert_eq!(ones.as_slice::<i32>().unwrap(), [1, 1, 1]);
    assert!(zoo::describe(&bias, "a \0", DType::Float32, Device::Cpu, None).is_err());
}

#[test]
fn elements_of_any_type() {
    let ones: Vec<u8> = [0x80u8, 0x3f].repeat(4);
    let x = Tensor::from_bytes(DType::BFloat16, &ones, &[2, 2]).unwrap();
    let y = zoo::gemm(&x, &x, None).unwrap();
    assert_eq!(y.as_bytes().unwrap(), [0x00u8, 0x40].repeat(4));
    assert!(Tensor::from_bytes(DType::BFloat16, &ones, &[2, 3]).is_err());
    assert!(x.as_slice::<u16>().is_err());
    let mut memory = [1f32, 2.0];
    let view = unsafe { Tensor::from_raw(memory.as_mut_ptr() as *mut _, DType::Float32, &[2], Device::Cpu) }.unwrap();
    assert_eq!(view.as_slice::<f32>().unwrap(), [1.0, 2.0]);
}

#[test]
fn tensors_go_from_thread_to_thread() {
    let a = Arc::new(tensor(&[1.0; 16], &[4, 4]));
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let a = Arc::clone(&a);
            thread::spawn(move || zoo::gemm(&a, &a, None).unwrap())
        })
        .collect();
    for made in threads {
        assert_eq!(made.join().unwrap().as_slice::<f32>().unwrap(), [4.0; 16]);
    }
}
