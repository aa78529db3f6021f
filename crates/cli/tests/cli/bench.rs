//! The shape of what `cera bench` prints; how fast anything is, is no test.

use cera_quant::Format;
use cera_testkit::toy::{Shape, Toy};
use serde_json::Value;

use crate::program::{Folder, Run, cera, run};

/// What a bench of the toy model with these arguments prints.
fn bench(folder: &Folder, args: &[&str]) -> Run {
    let model = folder.write("toy.gguf", Toy::new(Shape::SMALL, |_| Format::Q4_0).finish());
    Run::of(cera().arg("bench").arg("-m").arg(model).args(["-r", "2", "--no-warmup"]).args(args))
}

#[test]
fn json_has_a_row_for_every_test_with_its_samples_and_kernels() {
    let folder = Folder::new();
    let text =
        bench(&folder, &["-p", "8,0,16", "-n", "3", "--kv", "f32,f16", "-t", "1", "-o", "json"]).success();
    let rows: Vec<Value> = serde_json::from_str(&text).unwrap();
    let tests: Vec<_> = rows.iter().map(|row| (&row["type_kv"], &row["n_prompt"], &row["n_gen"])).collect();
    let expected = ["f32", "f16"]
        .map(|kv| [(8, 0), (16, 0), (0, 3)].map(|(p, n)| (Value::from(kv), p.into(), n.into())));
    let expected: Vec<(Value, Value, Value)> = expected.into_iter().flatten().collect();
    assert_eq!(tests, expected.iter().map(|(kv, p, n)| (kv, p, n)).collect::<Vec<_>>());
    for row in &rows {
        assert_eq!((&row["n_threads"], &row["n_depth"]), (&1.into(), &0.into()));
        assert!(row["model_filename"].as_str().unwrap().ends_with("toy.gguf"), "{row}");
        assert_eq!(row["samples_ts"].as_array().unwrap().len(), 2);
        assert_eq!(row["samples_ns"].as_array().unwrap().len(), 2);
        let speed = |name: &str| row[name].as_f64().unwrap();
        assert!(0.0 < speed("min_ts") && speed("min_ts") <= speed("median_ts"), "{row}");
        assert!(speed("median_ts") <= speed("max_ts") && speed("stddev_ts") >= 0.0, "{row}");
        assert!((speed("min_ts")..=speed("max_ts")).contains(&speed("avg_ts")), "{row}");
        let share = |name: &str| row[name].as_f64().filter(|&share| share > 0.0);
        let prompt = row["n_prompt"] != 0;
        assert_eq!(share("bandwidth_share").is_some(), !prompt, "{row}");
        assert_eq!(share("peak_share").is_some(), prompt && share("integer_peak").is_some(), "{row}");
        let op = if row["n_gen"] == 0 { "-gemm-q4_0" } else { "-gemv-q4_0" };
        let kernels = row["kernels"].as_array().unwrap();
        assert!(kernels.iter().any(|kernel| kernel[0].as_str().unwrap().contains(op)), "{row}");
    }
}

#[test]
fn tables_have_as_many_rows() {
    let folder = Folder::new();
    let lines = |format| {
        let text = bench(&folder, &["-p", "4", "-n", "2", "-d", "0,5", "-o", format]).success();
        text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect::<Vec<_>>()
    };
    let csv = lines("csv");
    assert_eq!(csv.len(), 1 + 4, "{csv:?}");
    let columns = csv[0].split(',').count();
    assert!(csv[0].contains("n_prompt") && csv[0].contains("avg_ts") && columns > 10, "{}", csv[0]);
    let md = lines("md");
    assert_eq!(md.iter().filter(|line| line.starts_with('|')).count(), 2 + 4, "{md:?}");
}

#[test]
fn what_cannot_be_measured_is_a_failure() {
    let folder = Folder::new();
    let missing = folder.path("none.gguf");
    assert!(run(&[&"bench", &"-m", &missing]).failure().contains("none.gguf: No such file"));
    for wrong in [&["-t", "0"][..], &["-r", "0"], &["-o", "xml"], &["-p", "x"], &["--kv", "q4_0"]] {
        bench(&folder, wrong).wrong_usage();
    }
    run(&[&"bench"]).wrong_usage();
}
