import { testPlaces } from "./axe";
import { places } from "./places/tune";

testPlaces(places);
