use std::time::Instant;

fn main() {
    let x = layers::Tensor::from_slice(&[0f32; 256], &[256]).unwrap();
    let mut y = layers::Tensor::from_slice(&[0f32; 256], &[256]).unwrap();
    let calls = 20000;
    let mut runs: Vec<f64> = (0..25)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..calls {
                layers::axpy(&x, &mut y, 0.5, None).unwrap();
            }
            start.elapsed().as_secs_f64() * 1e6 / calls as f64
        })
        .collect();
    runs.sort_by(f64::total_cmp);
    println!("{}", runs[12]);
}
