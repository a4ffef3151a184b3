"""Class numbers of the semantic masks: Cityscapes train ids, and 19 for windows."""

ROAD, SIDEWALK, BUILDING, WALL, FENCE = 0, 1, 2, 3, 4
POLE, TRAFFIC_LIGHT, TRAFFIC_SIGN = 5, 6, 7
VEGETATION, TERRAIN, SKY, PERSON = 8, 9, 10, 11
CAR, TRUCK, WINDOW, UNKNOWN = 13, 14, 19, 255

# Which of them are landmarks, under the names that the rest of the project speaks.
CATEGORY_OF_LABEL = {
    TRAFFIC_SIGN: "traffic_sign",
    TRAFFIC_LIGHT: "traffic_light",
    POLE: "pole",
    WINDOW: "window",
}
